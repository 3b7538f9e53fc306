package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// A repairer knows where the blobs of an image can be had.
type repairer struct {
	client    *remote.Client
	names     []ref.Reference                   // of the image: a registry that has it has all its blobs
	upstream  map[digest.Digest][]ref.Reference // of mirrored blobs
	manifests map[digest.Digest]bool            // those that are manifests or indexes

	store *store.Store
	made  map[digest.Digest]madeIndex // indexes of referrers, which the build made
}

// A madeIndex is the index of an image's referrers: no registry need have it.
type madeIndex struct {
	subject   digest.Digest
	revisions []tree.Revision // of the repository: the referrers are among them
}

func newRepairer(ctx context.Context, s *store.Store, c *remote.Client, name string) *repairer {
	r := &repairer{client: c, upstream: map[digest.Digest][]ref.Reference{}, manifests: map[digest.Digest]bool{}, store: s, made: map[digest.Digest]madeIndex{}}
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
	revisions := map[string][]tree.Revision{} // of all layers, by repository
	for _, doc := range im.Documents {
		for _, repo := range doc.Repositories {
			revisions[repo.Name] = append(revisions[repo.Name], repo.Revisions...)
		}
	}
	for _, doc := range im.Documents {
		for _, repo := range doc.Repositories {
			for _, t := range repo.Tags {
				if tree.IsReferrersTag(t.Name) {
					subject := digest.Digest(strings.Replace(t.Name, "-", ":", 1))
					r.made[t.Digest] = madeIndex{subject, revisions[repo.Name]}
				}
			}
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
	if b := r.remake(ctx, desc); b != nil {
		_, err := w.Write(b)
		return err
	}
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

// remake makes an index of referrers again, out of the manifests that the store
// has and those that their registries have. It is nil where desc is none, or where
// not all of its manifests can be had.
func (r *repairer) remake(ctx context.Context, desc ocispec.Descriptor) []byte {
	made, ok := r.made[desc.Digest]
	if !ok {
		return nil
	}
	var entries []ocispec.Descriptor
	for _, v := range made.revisions {
		if v.Digest == desc.Digest {
			continue
		}
		b, err := r.store.ReadBlob(ctx, v.Digest, remote.MaxManifest)
		if err != nil {
			var fetched bytes.Buffer
			if r.fetch(ctx, ocispec.Descriptor{MediaType: v.MediaType, Digest: v.Digest, Size: v.Size}, &fetched) != nil || digest.FromBytes(fetched.Bytes()) != v.Digest {
				continue // a referrer that is missing gives the index another digest
			}
			b = fetched.Bytes()
		}
		if entry, err := mirror.ReferrerOf(made.subject, v.MediaType, b); err == nil && !slices.ContainsFunc(entries, func(e ocispec.Descriptor) bool { return e.Digest == entry.Digest }) {
			entries = append(entries, entry)
		}
	}
	got, b, err := mirror.ReferrersIndex(entries)
	if err != nil || got.Digest != desc.Digest {
		return nil // the registry's own
	}
	return b
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
