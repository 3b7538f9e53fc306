package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
)

// Errors that Mirror and Plan wrap.
var (
	// ErrCollision: different images fall on one name in the private registry.
	ErrCollision = errors.New("two different images have one name in the private registry")
	// ErrNotMirrored: a reference to the private registry that no mirrored image
	// satisfies.
	ErrNotMirrored = errors.New("it names the private registry, and no mirrored image has that name there")
)

// A Request asks for one image.
type Request struct {
	Reference  ref.Reference      // the name that the cluster asks for
	Source     ref.Reference      // where to fetch it from; the zero Reference means Reference
	Asked      []string           // who asks: "manifests/imageList:3"; for errors
	Credential *remote.Credential // used for Source's registry before all others; may be nil
	Digest     digest.Digest      // locked: fetch exactly this, whatever the tag says; "" for no lock
}

// source returns the reference to fetch.
func (q Request) source() ref.Reference {
	r := q.Source
	if r == (ref.Reference{}) {
		r = q.Reference
	}
	if q.Digest != "" {
		r.Digest = q.Digest
	}
	return r
}

// String names the request as errors do: the reference, and who asked for it.
func (q Request) String() string {
	s := q.Reference.String()
	if q.Source != (ref.Reference{}) && q.Source != q.Reference {
		s += " from " + q.Source.String()
	}
	switch n := len(q.Asked); {
	case n > 3:
		s += fmt.Sprintf(" (%s and %d more)", strings.Join(q.Asked[:3], ", "), n-3)
	case n > 0:
		s += " (" + strings.Join(q.Asked, ", ") + ")"
	}
	return s
}

// Options steers Mirror and Plan. The zero value mirrors Linux on this
// machine's architecture, with path naming, from the network.
type Options struct {
	Platforms    []ocispec.Platform // of an index, fetch these; empty means platform.Default
	AllPlatforms bool               // fetch every platform that is published
	Jobs         int                // blobs at a time over all registries; 0 means remote.DefaultJobs
	Naming       tree.Naming
	Private      string           // the private registry, never fetched from; "" means tree.DefaultRegistry
	Below        []*tree.Document // the registry layers below, lowest first: they may satisfy requests for Private
	AllowMissing bool             // images that fail are left out of the result instead of failing it
	Offline      bool             // ask no registry: take what the sink holds
	// Known gives the digest that a reference (normalised, as ref.Reference
	// prints it) had in earlier builds of this store; see KnownFrom. Offline
	// resolves tags by it; else one that is known is asked whether it has moved.
	Known map[string]digest.Digest
	// Resolved is called by Mirror when every manifest is there, before it
	// copies the blobs: what only needs the result's names, such as Document,
	// can begin beside that. Images whose blobs turn out to be missing still
	// look whole then. It must not wait; nil for none.
	Resolved func(*Result)
	Progress func(remote.Event) // called concurrently; nil for none
	Logger   *slog.Logger       // nil discards
}

func (o Options) filled() Options {
	o.Jobs = cmp.Or(max(o.Jobs, 0), remote.DefaultJobs)
	o.Naming = cmp.Or(o.Naming, tree.NamingPath)
	o.Private = cmp.Or(o.Private, tree.DefaultRegistry)
	if len(o.Platforms) == 0 {
		o.Platforms = []ocispec.Platform{platform.Default()}
	}
	if o.AllPlatforms {
		o.Platforms = nil
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// An Image is what became of one Request.
type Image struct {
	Request
	Descriptor ocispec.Descriptor   // of the manifest or index
	Manifests  []ocispec.Descriptor // the manifests fetched and the index if it is one; the top last
	Blobs      []ocispec.Descriptor // configs and layers, each once
	Platforms  []ocispec.Platform   // of Manifests
	Size       int64                // bytes of Manifests and Blobs
	// SatisfiedBelow tells that a request for the private registry is met by a
	// layer below; Manifests and Blobs are empty then.
	SatisfiedBelow bool
	Err            error // why it is missing; nil when it is whole
}

// A Count is a number of blobs (manifests among them) and their bytes.
type Count struct {
	Blobs int
	Bytes int64
}

// A Result is the outcome of Mirror, or of Plan what Mirror would do.
type Result struct {
	Images  []Image // in the order of the requests
	Fetched Count   // brought from the registries; by Plan: what would be
	Reused  Count   // in the sink before

	naming  tree.Naming
	private string
}

// Mirror brings the images of reqs into sink. The error joins the failures of
// all requests in their order, each naming the reference and who asked for it;
// with AllowMissing they are only in the images' Err. Collisions of names fail
// always, and before a layer is fetched. The Result is complete, and never
// nil, in every case.
func Mirror(ctx context.Context, c *remote.Client, sink remote.Sink, reqs []Request, o Options) (*Result, error) {
	e := newEngine(c, &countingSink{Sink: sink}, reqs, o)
	if err := e.resolve(ctx); err != nil {
		return e.result, err
	}
	missing, err := e.missing(ctx)
	if err == nil {
		if e.o.Resolved != nil {
			e.o.Resolved(e.result)
		}
		err = e.copy(ctx, missing)
	}
	e.count()
	if err != nil {
		return e.result, err
	}
	return e.result, e.verdict()
}

// Plan does what Mirror does up to the first layer, and writes nothing to sink:
// manifests are read from sink where it has them, else from the registries.
func Plan(ctx context.Context, c *remote.Client, sink remote.Sink, reqs []Request, o Options) (*Result, error) {
	e := newEngine(c, &countingSink{Sink: &planSink{Sink: sink}}, reqs, o)
	if err := e.resolve(ctx); err != nil {
		return e.result, err
	}
	missing, err := e.missing(ctx)
	if err != nil {
		return e.result, err
	}
	for _, d := range missing {
		e.sink.note(d)
	}
	e.count()
	return e.result, e.verdict()
}

type engine struct {
	c      *remote.Client
	sink   *countingSink
	o      Options
	result *Result
}

func newEngine(c *remote.Client, sink *countingSink, reqs []Request, o Options) *engine {
	o = o.filled()
	e := &engine{c: c, sink: sink, o: o, result: &Result{naming: o.Naming, private: o.Private}}
	for _, q := range reqs {
		e.result.Images = append(e.result.Images, Image{Request: q})
	}
	return e
}

// resolve reads the manifests of all images, at once: images one after the
// other take 2.0 times as long at 30 ms. The Client limits what is in flight.
// Only what concerns the run as a whole is an error here.
func (e *engine) resolve(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(64) // goroutines that wait, for the limit of requests is the Client's
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.source().Registry == e.o.Private {
			continue // below, when all others are known
		}
		g.Go(func() error {
			im.Err = e.resolveOne(ctx, im)
			e.report(remote.Event{Op: "resolve", Reference: im.Reference.String(), Digest: im.Descriptor.Digest, Finished: true})
			return nil
		})
	}
	_ = g.Wait() // never fails: failures are kept by image
	if err := ctx.Err(); err != nil {
		return err
	}
	e.requirements()
	return errors.Join(e.collisions()...)
}

func (e *engine) resolveOne(ctx context.Context, im *Image) error {
	content, err := e.c.As(im.Credential).Walk(ctx, e.sink, im.source(), remote.WalkOptions{
		Platforms: e.o.Platforms,
		Known:     e.o.Known[im.Reference.String()],
		Offline:   e.o.Offline,
	})
	if err != nil {
		return err
	}
	im.Descriptor, im.Manifests, im.Blobs, im.Platforms = content.Descriptor, content.Manifests, content.Blobs, content.Platforms
	for _, d := range append(im.Manifests, im.Blobs...) {
		im.Size += d.Size
	}
	return nil
}

// missing returns the blobs that the sink lacks, each once over all images, in
// the order in which the images name them.
func (e *engine) missing(ctx context.Context) ([]remote.Wanted, error) {
	at := map[digest.Digest]int{} // index in out, or -1 when the sink has it
	var out []remote.Wanted
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.Err != nil {
			continue
		}
		for _, d := range im.Blobs {
			n, seen := at[d.Digest]
			if !seen {
				has, err := e.sink.HasBlob(ctx, d.Digest)
				if err != nil {
					return nil, fmt.Errorf("mirror %s: blob %s: %w", im.Request, d.Digest, err)
				}
				if n = -1; !has {
					n = len(out)
					out = append(out, remote.Wanted{Descriptor: d})
				}
				at[d.Digest] = n
			}
			if n < 0 {
				continue
			}
			if out[n].Size != d.Size {
				im.Err = fmt.Errorf("blob %s: its manifest says %d bytes, another's says %d: %w", d.Digest, d.Size, out[n].Size, remote.ErrDigest)
				continue
			}
			out[n].From = append(out[n].From, remote.Origin{Client: e.c.As(im.Credential), Image: im.source()})
		}
	}
	return out, nil
}

// copy fetches blobs, and marks the images whose blobs could not be had.
func (e *engine) copy(ctx context.Context, blobs []remote.Wanted) error {
	failed := map[digest.Digest]error{}
	if e.o.Offline {
		for _, b := range blobs {
			failed[b.Digest] = fmt.Errorf("blob %s: %w", b.Digest, remote.ErrOffline)
		}
	} else {
		m := newMeter(e.o.Progress, blobs)
		for i := range blobs {
			blobs[i].Progress = m.of(blobs[i].Descriptor)
		}
		failed = remote.Fetch(ctx, e.sink, blobs, e.o.Jobs)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range e.result.Images {
		im := &e.result.Images[i]
		for _, d := range im.Blobs {
			if err := failed[d.Digest]; err != nil && im.Err == nil {
				im.Err = err
			}
		}
	}
	return nil
}

func (e *engine) report(ev remote.Event) {
	if e.o.Progress != nil {
		e.o.Progress(ev)
	}
}

// count fills the result's totals: what was fetched, and what else the whole
// images consist of.
func (e *engine) count() {
	seen := map[digest.Digest]bool{}
	for _, im := range e.result.Images {
		if im.Err != nil {
			continue
		}
		for _, d := range append(append([]ocispec.Descriptor{}, im.Manifests...), im.Blobs...) {
			if !seen[d.Digest] && !e.sink.fetched(d.Digest) {
				e.result.Reused.Blobs++
				e.result.Reused.Bytes += d.Size
			}
			seen[d.Digest] = true
		}
	}
	e.result.Fetched = e.sink.total()
}

// verdict joins the failures in the order of the requests.
func (e *engine) verdict() error {
	var errs []error
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.Err == nil {
			continue
		}
		im.Err = fmt.Errorf("mirror %s: %w", im.Request, im.Err)
		if !e.o.AllowMissing {
			errs = append(errs, im.Err)
		}
	}
	return errors.Join(errs...)
}
