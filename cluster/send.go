package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	digestpkg "github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/cluster/wire"
)

const (
	// blobsAtOnce bounds the blobs that are on their way to one machine.
	blobsAtOnce = 4
	// starBelow is the number of machines below which the engine sends all: they
	// would wait longer for each other.
	starBelow = 3
	// directBelow is the size in bytes of blobs that are not worth a connection
	// between machines.
	directBelow = 256 << 10
)

// send brings the blobs that a machine lacks: from machines that have them, or
// from here.
func (x *runner) send(ctx context.Context, s plan.Step, m *machine) error {
	var a plan.ImageArgs
	if err := json.Unmarshal(s.Args, &a); err != nil {
		return err
	}
	blobs := x.blobsOf(x.img, a.Descriptor.Digest.String())
	var now plan.Node
	q := node.LookRequest{Cluster: x.file.Cluster.Name, Blobs: digests(blobs)}
	if err := m.conn.Call(ctx, node.OpLook, q, &now, wire.Streams{}); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(blobsAtOnce)
	for _, b := range blobs {
		missing := slices.Contains(now.Missing, b.Digest)
		switch {
		case !missing && x.shares(b):
			x.has(ctx, b, m)
		case missing && x.shares(b):
			g.Go(func() error { return x.share(gctx, b, m) })
		case missing:
			g.Go(func() error { return x.sendBlob(gctx, b, m) })
		}
	}
	return g.Wait()
}

// shares says whether machines bring the blob to each other.
func (x *runner) shares(b plan.Blob) bool {
	mode := x.file.Cluster.Distribution.Mode
	return b.Size >= directBelow && mode != "star" && (mode == "swarm" || len(x.machines) >= starBelow)
}

// share gets one blob to m from whom the tracker says. A transfer between
// machines that fails is tried again from elsewhere, in the end from here.
func (x *runner) share(ctx context.Context, b plan.Blob, m *machine) error {
	for {
		t, err := x.tracker.Next(ctx, b.Digest, m.name())
		if err != nil {
			return err
		}
		if t.From == "" {
			err := x.sendBlob(ctx, b, m)
			if err == nil {
				x.offer(ctx, m)
			}
			t.Done(err == nil)
			return err
		}
		err = x.fetch(ctx, b, m, t.From)
		if err == nil {
			x.offer(ctx, m)
			t.Done(true)
			return nil
		}
		t.Done(false)
		if ctx.Err() != nil || m.conn.Err() != nil {
			return err
		}
		x.event(Event{Type: "log", Host: m.name(), Text: "warning: " + err.Error() + ": another machine is tried, or this one sends it"})
	}
}

// has tells the tracker of a machine that had the blob before.
func (x *runner) has(ctx context.Context, b plan.Blob, m *machine) {
	x.offer(ctx, m)
	x.tracker.Has(b.Digest, m.name())
}

// offer lets the machine serve, once. One that cannot is asked for nothing.
func (x *runner) offer(ctx context.Context, m *machine) {
	m.offering.Do(func() {
		if err := m.conn.Call(ctx, node.OpServe, node.ServeRequest{Rate: x.file.Cluster.Distribution.Bytes()}, &m.offer, wire.Streams{}); err != nil {
			x.tracker.Mute(m.name())
			x.event(Event{Type: "log", Host: m.name(), Text: "warning: " + err.Error()})
		}
	})
}

func (x *runner) fetch(ctx context.Context, b plan.Blob, m *machine, from string) error {
	i := slices.IndexFunc(x.machines, func(o *machine) bool { return o.name() == from })
	q := node.FetchRequest{
		BlobRequest: node.BlobRequest{Digest: digestpkg.Digest(b.Digest), Size: b.Size},
		Peer:        spread.Peer{Address: from, Offer: x.machines[i].offer},
	}
	if err := m.conn.Call(ctx, node.OpFetch, q, nil, wire.Streams{}); err != nil {
		return err
	}
	x.mu.Lock()
	x.report.Spread += b.Size
	x.mu.Unlock()
	x.event(Event{Type: "sent", Host: m.name(), Text: b.Digest + " from " + from, Bytes: b.Size})
	return nil
}

func (x *runner) sendBlob(ctx context.Context, b plan.Blob, m *machine) error {
	f, err := x.img.store.OpenBlob(ctx, digestpkg.Digest(b.Digest))
	if err != nil {
		return err
	}
	q := node.BlobRequest{Digest: digestpkg.Digest(b.Digest), Size: b.Size}
	err = m.conn.Call(ctx, node.OpBlob, q, nil, wire.Streams{Input: x.throttle.Reader(ctx, f)})
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("send %s: %w", b.Digest, err)
	}
	x.mu.Lock()
	x.report.Sent += b.Size
	x.mu.Unlock()
	x.event(Event{Type: "sent", Host: m.name(), Text: b.Digest, Bytes: b.Size})
	return nil
}
