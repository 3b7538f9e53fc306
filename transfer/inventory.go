package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
)

// RegistryInventory lists the content of the repository in, as the manifests of
// its tags say it: no blob is asked for. With names the tags are listed too. A
// manifest that no tag leads to is not found. Of an index, manifests that the
// registry lacks are left out. A tag whose content is of a kind that sealer does not read is
// counted in skipped.
func RegistryInventory(ctx context.Context, c *remote.Client, in ref.Reference, names bool) (_ *inventory.Inventory, skipped int, err error) {
	tags, err := c.Tags(ctx, in)
	if err != nil {
		return nil, 0, err
	}
	l := &lister{c: c, in: in, blobs: map[digest.Digest]int64{}}
	out := &inventory.Inventory{}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(remote.DefaultJobs)
	for _, tag := range tags {
		g.Go(func() error {
			r := ref.Reference{Registry: in.Registry, Repository: in.Repository, Tag: tag}
			d, b, err := c.Manifest(gctx, r)
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case errors.Is(err, remote.ErrUnsupported), errors.Is(err, remote.ErrNotFound): // deleted meanwhile
				skipped++
				return nil
			case err != nil:
				return fmt.Errorf("tag %s: %w", tag, err)
			}
			if names {
				out.Names = append(out.Names, inventory.Name{Name: r.String(), Digest: d.Digest})
			}
			return l.add(d, b)
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, fmt.Errorf("inventory of %s: %w", in.Name(), err)
	}
	if err := l.children(ctx); err != nil {
		return nil, 0, fmt.Errorf("inventory of %s: %w", in.Name(), err)
	}
	for d, size := range l.blobs {
		out.Blobs = append(out.Blobs, inventory.Blob{Digest: d, Size: size})
	}
	return out, skipped, nil
}

// A lister gathers the blobs that manifests name.
type lister struct {
	c  *remote.Client
	in ref.Reference

	mu    sync.Mutex // guards the fields below
	blobs map[digest.Digest]int64
	next  []ocispec.Descriptor // manifests that an index names, not read yet
}

// add notes a manifest and the content that it names.
func (l *lister) add(d ocispec.Descriptor, b []byte) error {
	if _, ok := l.blobs[d.Digest]; ok {
		return nil
	}
	m, err := remote.ParseManifest(d.MediaType, b)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d.Digest, err)
	}
	l.blobs[d.Digest] = int64(len(b))
	if m.IsIndex() {
		l.next = append(l.next, m.Manifests...)
		return nil
	}
	for _, blob := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if err := ref.CheckDigest(blob.Digest); err == nil && blob.Size >= 0 {
			l.blobs[blob.Digest] = blob.Size
		}
	}
	return nil
}

// children reads the manifests that indexes name. An index in an index is not
// followed: no image of sealer has one.
func (l *lister) children(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(remote.DefaultJobs)
	asked := map[digest.Digest]bool{}
	for _, d := range l.next {
		if asked[d.Digest] || !platform.IsManifest(d.MediaType) {
			continue
		}
		asked[d.Digest] = true
		g.Go(func() error {
			found, b, err := l.c.Manifest(ctx, ref.Reference{Registry: l.in.Registry, Repository: l.in.Repository, Digest: d.Digest})
			if errors.Is(err, remote.ErrNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("manifest %s: %w", d.Digest, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.add(found, b)
		})
	}
	return g.Wait()
}
