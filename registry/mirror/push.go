package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
)

// A Prefix is the destination of Push: a registry and a path in it.
type Prefix struct {
	Registry   string // host[:port]
	Repository string // "" puts them at the top
}

// ParsePrefix reads host[:port][/path].
func ParsePrefix(s string) (Prefix, error) {
	host, path, _ := strings.Cut(strings.TrimSuffix(s, "/"), "/")
	p := Prefix{Registry: host, Repository: path}
	// ref.Parse takes a first element for a host only if it looks like one.
	r, err := ref.Parse(p.repository("x").String())
	if err != nil || r.Registry != host {
		return Prefix{}, fmt.Errorf("registry %q: want HOST[:PORT][/PATH]", s)
	}
	return p, nil
}

func (p Prefix) repository(name string) ref.Reference {
	if p.Repository != "" {
		name = p.Repository + "/" + name
	}
	return ref.Reference{Registry: p.Registry, Repository: name}
}

// PushOptions steers Push. The zero value works.
type PushOptions struct {
	Progress func(remote.Event) // called concurrently; nil for none
}

// A Pushed is an image that Push has copied to the target.
type Pushed struct {
	Reference ref.Reference // by tag, or by digest where it has none
	Digest    digest.Digest // of the manifest or index that the target has
	// Reduced says that the target refused an index with missing manifests and
	// got an index of the mirrored platforms instead. Digest is then not the
	// image's.
	Reduced bool
}

// Push copies the mirrored images of the registry layers docs, lowest first, from
// src to a registry: every tag, and every image without a tag by its digest. It
// returns the images copied, and all failures joined. An image that was mirrored
// for some platforms is pushed as Pushed.Reduced describes; without a tag it
// fails with remote.ErrSparse.
func Push(ctx context.Context, c *remote.Client, src remote.Source, docs []*tree.Document, to Prefix, o PushOptions) ([]Pushed, error) {
	u := unite(docs)
	mounts := map[digest.Digest][]string{}
	var out []Pushed
	var errs []error
	for _, repository := range slices.Sorted(maps.Keys(u.revisions)) {
		for _, at := range u.roots(repository) {
			r := to.repository(repository)
			r.Tag = at.tag
			if at.tag == "" {
				r.Digest = at.revision.Digest
			}
			p, err := pushOne(ctx, c, src, at.revision.descriptor(), r, remote.PushOptions{MountFrom: mounts, Progress: o.Progress, Sparse: true})
			if ctx.Err() != nil {
				return out, ctx.Err()
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, p)
		}
		// The next repositories can mount the layers from this one.
		for l := range u.layers[repository] {
			mounts[l] = []string{to.repository(repository).Repository}
		}
	}
	return out, errors.Join(errs...)
}

func pushOne(ctx context.Context, c *remote.Client, src remote.Source, d ocispec.Descriptor, r ref.Reference, o remote.PushOptions) (Pushed, error) {
	got, err := c.PushImage(ctx, src, d, r, o)
	if errors.Is(err, remote.ErrSparse) && r.Tag != "" {
		o.Reduce = true
		got, err = c.PushImage(ctx, src, d, r, o)
	}
	return Pushed{Reference: r, Digest: got.Digest, Reduced: got.Digest != d.Digest}, err
}

// A root is a manifest or index to push, under a tag or by its digest.
type root struct {
	tag      string
	revision revision
}

// roots returns the tags of a repository, then its images without a tag, both
// sorted.
func (u union) roots(repository string) []root {
	var out []root
	tagged := map[digest.Digest]bool{}
	for n, t := range u.tags {
		if n.repository == repository {
			out = append(out, root{n.tag, u.revisions[repository][t.digest]})
			tagged[t.digest] = true
		}
	}
	for d, v := range u.revisions[repository] {
		if len(v.sources) > 0 && !tagged[d] {
			out = append(out, root{"", v})
		}
	}
	slices.SortFunc(out, func(a, b root) int {
		return strings.Compare(a.tag+"@"+a.revision.Digest.String(), b.tag+"@"+b.revision.Digest.String())
	})
	return out
}

// MountFrom returns for each layer of the mirrored images in docs the
// repositories, by their names in the private registry, in which a registry may
// have it already. It is for remote.PushOptions.
func MountFrom(docs []*tree.Document) map[digest.Digest][]string {
	out := map[digest.Digest][]string{}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, l := range r.Layers {
				out[l] = append(out[l], r.Name)
			}
		}
	}
	return out
}
