package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// A repairer knows where the blobs of an image can be had.
type repairer struct {
	client    *remote.Client
	names     []ref.Reference                   // of the image: a registry that has it has all its blobs
	upstream  map[digest.Digest][]ref.Reference // of mirrored blobs
	manifests map[digest.Digest]bool            // those that are manifests or indexes
}

func newRepairer(ctx context.Context, s *store.Store, c *remote.Client, name string) *repairer {
	r := &repairer{client: c, upstream: map[digest.Digest][]ref.Reference{}, manifests: map[digest.Digest]bool{}}
	r.name(name)
	first, err := s.Image(ctx, name, nil)
	if err != nil {
		return r // the image's own manifest is broken: the registry has it
	}
	for _, p := range first.Platforms {
		im, err := s.Image(ctx, name, &p)
		if err != nil {
			continue // another platform may be whole
		}
		for _, n := range im.Names {
			r.name(n)
		}
		r.image(im)
	}
	return r
}

func (r *repairer) name(name string) {
	if n, err := ref.Parse(name); err == nil {
		r.names = append(r.names, n)
	}
}

// image notes the source of each mirrored image.
func (r *repairer) image(im *store.Image) {
	for _, doc := range im.Documents {
		for _, repo := range doc.Repositories {
			var from []ref.Reference
			for _, v := range repo.Revisions {
				r.manifests[v.Digest] = true
				from = append(from, v.Sources...)
			}
			for _, v := range repo.Revisions {
				r.upstream[v.Digest] = append(r.upstream[v.Digest], from...)
			}
			for _, l := range repo.Layers {
				r.upstream[l] = append(r.upstream[l], from...)
			}
		}
	}
}

// fetch writes the content of a blob from the first place that has it.
func (r *repairer) fetch(ctx context.Context, desc ocispec.Descriptor, w io.Writer) error {
	places := append(r.upstream[desc.Digest], r.names...)
	err := errors.New("no registry is known to have it")
	tried := map[string]bool{}
	for _, from := range places {
		if tried[from.Name()] {
			continue
		}
		tried[from.Name()] = true
		counted := &countingWriter{w: w}
		if err = r.from(ctx, from, desc, counted); err == nil || ctx.Err() != nil || counted.n > 0 {
			return err // bytes that are written cannot be taken back
		}
	}
	return err
}

func (r *repairer) from(ctx context.Context, from ref.Reference, desc ocispec.Descriptor, w io.Writer) error {
	manifest := r.manifests[desc.Digest] && len(r.upstream[desc.Digest]) > 0
	switch desc.MediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex:
		manifest = true
	}
	if !manifest {
		return r.client.Blob(ctx, from, desc, w)
	}
	from.Tag, from.Digest = "", desc.Digest
	_, b, err := r.client.Manifest(ctx, from)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("manifest of %s: %w", from, err)
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
