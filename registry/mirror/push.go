package mirror

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

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
	Record   *remote.Record     // remembers what repositories hold; nil remembers it during this Push
	Progress func(remote.Event) // called concurrently; nil for none
}

// imagesAtATime is the number of images that Push pushes at a time. An image is
// mostly round trips one after the other; the client limits requests and blobs.
const imagesAtATime = 8

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
// returns the images copied, and all failures joined, both in the order of names.
// An image that was mirrored for some platforms is pushed as Pushed.Reduced
// describes; without a tag it fails with remote.ErrSparse.
//
// The first image goes alone. A registry that does not serve it, or that stops
// serving, is one error that counts the images left out.
func Push(ctx context.Context, c *remote.Client, src remote.Source, docs []*tree.Document, to Prefix, o PushOptions) ([]Pushed, error) {
	u := unite(docs)
	if o.Record == nil {
		o.Record = remote.OpenRecord("")
	}
	count := newPushMeter(o.Progress, docs)
	var images []pushing
	for _, repository := range slices.Sorted(maps.Keys(u.revisions)) {
		for _, at := range u.roots(repository) {
			r := to.repository(repository)
			r.Tag = at.tag
			if at.tag == "" {
				r.Digest = at.revision.Digest
			}
			images = append(images, pushing{to: r, desc: at.revision.descriptor()})
		}
	}
	run, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var g errgroup.Group
	g.SetLimit(imagesAtATime)
	for i := range images {
		im := &images[i]
		g.Go(func() error {
			if run.Err() != nil {
				return nil
			}
			ro := remote.PushOptions{Record: o.Record, Progress: count.progress(), Sparse: true}
			im.got, im.err = pushOne(run, c, src, im.desc, im.to, ro)
			im.tried = run.Err() == nil || im.err == nil
			if im.tried && remote.Unavailable(im.err) && (i == 0 || c.Ping(run, im.to) != nil) {
				stop(im.err)
			}
			return nil
		})
		if i == 0 {
			_ = g.Wait() // its failure is kept by image
		}
	}
	_ = g.Wait() // failures are kept by image
	if ctx.Err() != nil {
		return outcome(images), ctx.Err()
	}
	return outcome(images), pushErrors(images, to, context.Cause(run))
}

// pushing is an image that Push pushes.
type pushing struct {
	to    ref.Reference
	desc  ocispec.Descriptor
	tried bool // got or err is set
	got   Pushed
	err   error
}

func outcome(images []pushing) []Pushed {
	var out []Pushed
	for _, im := range images {
		if im.tried && im.err == nil {
			out = append(out, im.got)
		}
	}
	return out
}

// pushErrors joins the failures. dead is the reason why the registry was given up,
// or nil: the images without an outcome of their own are counted under it.
func pushErrors(images []pushing, to Prefix, dead error) error {
	var errs []error
	left := 0
	for _, im := range images {
		switch {
		case dead != nil && (!im.tried || remote.Unavailable(im.err)):
			left++
		case im.err != nil:
			errs = append(errs, im.err)
		}
	}
	if dead != nil {
		errs = append(errs, fmt.Errorf("registry %s does not serve: %d of %d images are not pushed: %w", to.Registry, left, len(images), dead))
	}
	return errors.Join(errs...)
}

func pushOne(ctx context.Context, c *remote.Client, src remote.Source, d ocispec.Descriptor, r ref.Reference, o remote.PushOptions) (Pushed, error) {
	got, err := c.PushImage(ctx, src, d, r, o)
	if errors.Is(err, remote.ErrSparse) && r.Tag != "" {
		o.Reduce, o.Progress = true, nil // the blobs were reported
		got, err = c.PushImage(ctx, src, d, r, o)
	}
	return Pushed{Reference: r, Digest: got.Digest, Reduced: got.Digest != d.Digest}, err
}

// pushMeter adds up the blobs of all images, each once.
type pushMeter struct {
	report func(remote.Event)
	total  int64

	mu   sync.Mutex
	done int64
	seen map[digest.Digest]bool
}

func newPushMeter(report func(remote.Event), docs []*tree.Document) *pushMeter {
	m := &pushMeter{report: report, seen: map[digest.Digest]bool{}}
	sizes := map[digest.Digest]int64{}
	for _, doc := range docs {
		for _, b := range doc.Blobs {
			sizes[b.Digest] = b.Size
		}
	}
	for _, n := range sizes {
		m.total += n
	}
	return m
}

func (m *pushMeter) progress() func(remote.Event) {
	if m.report == nil {
		return nil
	}
	return func(e remote.Event) {
		m.mu.Lock()
		if e.Finished && !m.seen[e.Digest] {
			m.seen[e.Digest] = true
			m.done += e.Size
		}
		e.Done, e.Total = m.done, max(m.total, m.done)
		m.mu.Unlock()
		m.report(e)
	}
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

// MountFrom returns for each layer of the mirrored images in docs a repository of
// registry from which the image was mirrored. It is for remote.PushOptions.
func MountFrom(docs []*tree.Document, registry string) map[digest.Digest]string {
	out := map[digest.Digest]string{}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			from := sourceAt(r, registry)
			if from == "" {
				continue
			}
			for _, l := range r.Layers {
				out[l] = from
			}
		}
	}
	return out
}

// sourceAt returns the repository of registry from which the first of r's images
// that has one was mirrored.
func sourceAt(r tree.Repository, registry string) string {
	var sources []ref.Reference
	for _, t := range r.Tags {
		sources = append(sources, t.Sources...)
	}
	for _, v := range r.Revisions {
		sources = append(sources, v.Sources...)
	}
	for _, s := range sources {
		if s.Registry == registry {
			return s.Repository
		}
	}
	return ""
}
