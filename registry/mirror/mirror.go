package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	// ErrNotMirrored: no mirrored image satisfies a reference to the private
	// registry.
	ErrNotMirrored = errors.New("it names the private registry, and no mirrored image has that name there")
)

// A Request asks for one image.
type Request struct {
	Reference  ref.Reference      // the name that the cluster asks for
	Source     ref.Reference      // where to fetch it from; the zero Reference means Reference
	Asked      []string           // places that ask for it, for errors: "manifests/imageList:3"
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

// String returns the reference and the places that ask for it, for errors.
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
	Platforms       []ocispec.Platform // of an index, fetch these; empty means platform.Default
	AllPlatforms    bool               // fetch every platform that is published
	Jobs            int                // blobs at a time over all registries; 0 means remote.DefaultJobs
	Naming          tree.Naming
	PrivateRegistry string           // the private registry, never fetched from; "" means ref.DefaultPrivate
	Below           []*tree.Document // the registry layers below, lowest first; they may satisfy requests for PrivateRegistry
	Held            []*tree.Document // what files below hold as a registry tree: its names count as Below's, its blobs do not
	AllowMissing    bool             // images that fail are left out of the result instead of failing it
	Offline         bool             // ask no registry: the sink must have everything
	// Known gives the digest that a reference (normalised, as ref.Reference
	// prints it) had in earlier builds of this store; see KnownFrom. With
	// Offline, tags resolve to it. Otherwise it makes the request for a tag
	// conditional.
	Known map[string]digest.Digest
	// Ledger, when it is not nil, counts over several runs; see Ledger.
	Ledger *Ledger
	// Prefetch leaves the counting of the blobs that this run copies to the later
	// runs with the Ledger.
	Prefetch bool
	// Attachments, when it is not nil, brings the signatures and other artifacts
	// that belong to the images.
	Attachments *Attachments
	// Resolved is called by Mirror when every manifest has been read, before
	// blobs are copied. Work that needs only the names in the result, such as
	// Document, can then run beside the copying. An image whose blobs turn out to
	// be missing still looks complete in that result. Resolved must not wait. nil
	// means none.
	Resolved func(*Result)
	Progress func(remote.Event) // called concurrently; nil for none
}

func (o Options) filled() Options {
	o.Jobs = cmp.Or(max(o.Jobs, 0), remote.DefaultJobs)
	o.Naming = cmp.Or(o.Naming, tree.NamingPath)
	o.PrivateRegistry = cmp.Or(o.PrivateRegistry, ref.DefaultPrivate)
	if len(o.Platforms) == 0 {
		o.Platforms = []ocispec.Platform{platform.Default()}
	}
	if o.AllPlatforms {
		o.Platforms = nil
	}
	return o
}

// An Image is the outcome of one Request.
type Image struct {
	Request
	Descriptor ocispec.Descriptor   // of the manifest or index
	Manifests  []ocispec.Descriptor // the manifests fetched and the index if it is one; the top last
	Blobs      []ocispec.Descriptor // configs and layers, each once
	Platforms  []ocispec.Platform   // of Manifests
	Size       int64                // bytes of Manifests and Blobs
	// SatisfiedBelow says that a layer below satisfies a request for the private
	// registry. Manifests and Blobs are then empty.
	SatisfiedBelow bool
	Attached       []Attached // artifacts that belong to the image, those of Options.Attachments
	Err            error      // why it is missing; nil when it is whole
}

// A Count is a number of blobs (manifests among them) and their bytes.
type Count struct {
	Blobs int
	Bytes int64
}

// A Result is the outcome of Mirror. Of Plan, it is the outcome that Mirror would
// have.
type Result struct {
	Images  []Image // in the order of the requests
	Fetched Count   // copied from the registries; by Plan: to be copied
	Reused  Count   // in the sink before
	Notes   []error // attachments that were not brought, and why; they fail nothing

	naming  tree.Naming
	private string
	held    []*tree.Document
}

// Mirror copies the images of reqs into sink. The error joins the failures of all
// requests in their order, each with the reference and the places that ask for
// it. With AllowMissing these failures are only in the images' Err. Collisions of
// names always fail, and before a layer is fetched. The Result is complete, and
// never nil, in every case.
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

// Plan does the work of Mirror up to the first layer and writes nothing to sink.
// It reads manifests from sink if sink has them, else from the registries.
func Plan(ctx context.Context, c *remote.Client, sink remote.Sink, reqs []Request, o Options) (*Result, error) {
	e := newEngine(c, &countingSink{Sink: &remote.Staged{Sink: sink}}, reqs, o)
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
	e := &engine{c: c, sink: sink, o: o, result: &Result{naming: o.Naming, private: o.PrivateRegistry, held: o.Held}}
	for _, q := range reqs {
		e.result.Images = append(e.result.Images, Image{Request: q})
	}
	return e
}

// resolve reads the manifests of all images concurrently: one image after the
// other takes 2.0 times as long at 30 ms. The Client limits the requests in
// flight. Failures of single images are kept in their Err; the error is about the
// run.
func (e *engine) resolve(ctx context.Context) error {
	var g errgroup.Group
	g.SetLimit(64) // most of these goroutines wait for the Client's limit of requests
	for i := range e.result.Images {
		im := &e.result.Images[i]
		if im.source().Registry == e.o.PrivateRegistry {
			continue // requirements judges it when all others are known
		}
		g.Go(func() error {
			im.Err = e.resolveOne(ctx, im)
			e.report(remote.Event{Op: "resolve", Reference: im.Reference.String(), Digest: im.Descriptor.Digest, Finished: true})
			return nil
		})
	}
	_ = g.Wait() // failures are kept by image
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
		Signatures: func(d digest.Digest) digest.Digest {
			if e.o.Attachments == nil {
				return ""
			}
			r := im.source()
			at := ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: tree.AttachmentTag(d) + tree.CosignSuffixes[0]}
			return e.o.Attachments.Known[at.String()]
		},
	})
	if err != nil {
		return err
	}
	im.Descriptor, im.Manifests, im.Blobs, im.Platforms = content.Descriptor, content.Manifests, content.Blobs, content.Platforms
	for _, d := range append(im.Manifests, im.Blobs...) {
		im.Size += d.Size
	}
	e.attach(ctx, im)
	return nil
}

// copy fetches blobs, and sets Err of the images that need a blob which could not
// be fetched.
func (e *engine) copy(ctx context.Context, blobs []remote.Wanted) error {
	failed := map[digest.Digest]error{}
	if e.o.Offline {
		for _, b := range blobs {
			failed[b.Digest] = fmt.Errorf("blob %s: %w", b.Digest, remote.ErrOffline)
		}
	} else {
		m := newMeter(e.o.Progress, blobs)
		for i := range blobs {
			blobs[i].Progress = m.of(blobs[i])
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
		e.dropFailed(im, failed)
	}
	return nil
}

func (e *engine) report(ev remote.Event) {
	if e.o.Progress != nil {
		e.o.Progress(ev)
	}
}

// count fills the result's totals: the blobs fetched, and the other blobs of the
// complete images.
func (e *engine) count() {
	copied := e.sink.copied()
	ledger := e.o.Ledger
	if ledger == nil {
		ledger = &Ledger{}
	}
	ledger.note(copied)
	if e.o.Prefetch {
		return
	}
	var whole []ocispec.Descriptor
	for _, im := range e.result.Images {
		if im.Err != nil {
			continue
		}
		whole = append(append(whole, im.Manifests...), im.all()...)
		for _, a := range im.Attached {
			whole = append(whole, a.Manifests...)
		}
	}
	ledger.count(whole, copied, e.result)
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
