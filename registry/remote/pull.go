package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// maxFailures is the most blobs of an image that may fail before Pull gives up.
// A hostile manifest names thousands that do not exist.
const maxFailures = 20

// PullOptions steers Pull. The zero value pulls every platform.
type PullOptions struct {
	Platforms []ocispec.Platform // of an index, fetch these only; empty means all
	// Known is the digest that the reference had last; see WalkOptions.
	Known digest.Digest
	// Parts are the further manifests of a manifest; see WalkOptions.
	Parts func(ctx context.Context, sink Sink, m *Parsed) ([]ocispec.Descriptor, error)
	// Record is told what the repository holds; nil for none.
	Record   *Record
	Progress func(Event) // called concurrently; nil for none
	// Accept judges the image when its manifests are read and none of its layers is
	// fetched. It reads them from the sink that it is given, and may put configs
	// there. Its error ends the pull, and nothing is in Pull's sink; nil accepts
	// every image.
	Accept func(context.Context, Sink, *Content) error
}

// maxStaged limits the manifests and configs that wait in memory for Accept. The
// manifests of a ClusterImage for a dozen platforms have less than a tenth of it.
const maxStaged = 64 << 20

// Pull copies the image from into sink: manifests first, then the blobs that sink
// lacks, largest first. It returns the descriptor of the manifest or index that
// from names. An index is kept whole, even if only some platforms are fetched.
func (c *Client) Pull(ctx context.Context, sink Sink, from ref.Reference, o PullOptions) (ocispec.Descriptor, error) {
	fail := func(err error) (ocispec.Descriptor, error) {
		return ocispec.Descriptor{}, fmt.Errorf("pull %s: %w", from, err)
	}
	staged := &Staged{Sink: sink, Limit: maxStaged}
	content, err := c.Walk(ctx, staged, from, WalkOptions{Platforms: o.Platforms, Known: o.Known, Parts: o.Parts})
	if err != nil {
		return fail(err)
	}
	if o.Accept != nil {
		if err := o.Accept(ctx, staged, content); err != nil {
			return fail(err)
		}
	}
	if err := staged.Flush(ctx); err != nil {
		return fail(err)
	}
	meter := meter{report: o.Progress, reference: from.String()}
	var missing []Wanted
	for _, d := range content.Blobs {
		has, err := sink.HasBlob(ctx, d.Digest)
		if err != nil {
			return fail(err)
		}
		if has {
			continue
		}
		meter.total += d.Size
		missing = append(missing, Wanted{
			Descriptor: d,
			From:       []Origin{{c, from}},
			Progress:   func(n int) { meter.add(Event{Op: "fetch", Digest: d.Digest, Size: d.Size}, int64(n)) },
		})
	}
	failed := fetchUntil(ctx, sink, missing, c.o.Jobs, maxFailures)
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	var errs []error
	left := 0
	for _, b := range missing {
		switch err := failed[b.Digest]; {
		case errors.Is(err, errNotTried):
			left++
		case err != nil:
			errs = append(errs, fmt.Errorf("pull %s: %w", from, err))
		}
	}
	if left > 0 {
		errs = append(errs, fmt.Errorf("pull %s: %d more blobs: %w after these failures", from, left, errNotTried))
	}
	if len(errs) > 0 {
		return ocispec.Descriptor{}, errors.Join(errs...)
	}
	c.remember(o.Record, from, content)
	return content.Descriptor, nil
}

// remember notes in r, which may be nil, that from's repository has content.
func (c *Client) remember(r *Record, from ref.Reference, content *Content) {
	t, err := c.destination(from)
	if r == nil || err != nil {
		return
	}
	var all []digest.Digest
	for _, d := range append(slices.Clone(content.Manifests), content.Blobs...) {
		all = append(all, d.Digest)
	}
	r.hold(t.key(), content.Descriptor.Digest, all)
}

// meter adds up the bytes of concurrent transfers and reports them.
type meter struct {
	report    func(Event)
	reference string
	total     int64 // set before the transfers begin

	mu   sync.Mutex
	done int64
	blob map[digest.Digest]int64
}

func (m *meter) add(e Event, n int64) {
	if m.report == nil {
		return
	}
	m.mu.Lock()
	m.done += n
	e.Done, e.Total = m.done, m.total
	if m.blob == nil {
		m.blob = map[digest.Digest]int64{}
	}
	m.blob[e.Digest] += n
	e.Finished = m.blob[e.Digest] >= e.Size
	m.mu.Unlock()
	e.Reference = m.reference
	m.report(e)
}
