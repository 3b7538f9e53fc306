package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/wire"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// fetchBack gets the image d back into the store, under its name, from the store
// of the first master that has it.
func (e *engine) fetchBack(ctx context.Context, name string, d ocispec.Descriptor) error {
	for _, m := range e.machines {
		if !m.Master() {
			continue
		}
		var n plan.Node
		if err := m.conn.Call(ctx, node.OpLook, node.LookRequest{Cluster: e.file.Cluster.Name, Blobs: []string{d.Digest.String()}}, &n, wire.Streams{}); err != nil {
			return fmt.Errorf("%s: %w", m.name(), err)
		}
		if len(n.Missing) > 0 {
			continue
		}
		e.event(Event{Type: "log", Host: m.name(), Text: "image " + name + " is not in the store of this machine: it is fetched back from here"})
		if err := e.copyBack(ctx, m, name, d); err != nil {
			return fmt.Errorf("fetch image %s back from %s: %w", name, m.name(), err)
		}
		return nil
	}
	return fmt.Errorf("image %s: %w, neither here nor on a master", name, store.ErrNotFound)
}

// copyBack copies an image from the store of a machine. Every blob is checked
// against its digest.
func (e *engine) copyBack(ctx context.Context, m *machine, name string, d ocispec.Descriptor) error {
	tag, err := ref.Parse(name)
	if err != nil {
		return err
	}
	if err := e.getBlob(ctx, m, d); err != nil {
		return err
	}
	b, err := e.Store.ReadBlob(ctx, d.Digest, 64<<20)
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(b, &manifest); err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(blobsAtOnce)
	for _, blob := range append(manifest.Layers, manifest.Config) {
		g.Go(func() error { return e.getBlob(gctx, m, blob) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return e.Store.Commit(ctx, []ref.Reference{tag}, d)
}

// getBlob brings a blob from the store of a machine, unless the own one has it.
func (e *engine) getBlob(ctx context.Context, m *machine, d ocispec.Descriptor) error {
	return e.Store.PutBlob(ctx, d, func(w io.Writer) error {
		return m.conn.Call(ctx, node.OpGet, node.BlobRequest{Digest: d.Digest, Size: d.Size}, nil, wire.Streams{Output: w})
	})
}
