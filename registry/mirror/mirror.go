package mirror

import (
	"context"
	"errors"
	"log/slog"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
)

// A Request asks for one image.
type Request struct {
	Reference  ref.Reference      // the name that the cluster asks for
	Source     ref.Reference      // where to fetch it from; the zero Reference means Reference
	Asked      []string           // who asks: "manifests/imageList:3"; for errors
	Credential *remote.Credential // used for Source's registry before all others; may be nil
	Digest     digest.Digest      // locked: fetch exactly this, whatever the tag says; "" for no lock
}

// Options steers Mirror and Plan. The zero value mirrors Linux on this
// machine's architecture, with path naming, from the network.
type Options struct {
	Platforms    []ocispec.Platform // of an index, fetch these; empty means platform.Default
	AllPlatforms bool               // fetch every platform that is published
	Jobs         int                // transfers at a time over all registries; 0 means 8
	Naming       tree.Naming
	Private      string           // the private registry, never fetched from; "" means tree.DefaultRegistry
	Below        []*tree.Document // the registry layers below, lowest first: they may satisfy requests for Private
	AllowMissing bool             // images that fail are left out of the result instead of failing it
	Offline      bool             // ask no registry: take what the sink holds
	// Known gives the digest that a reference (normalised, as ref.Reference
	// prints it) had in earlier builds of this store; see KnownFrom. Offline
	// resolves tags by it; else a tag that is known is asked for with HEAD.
	Known    map[string]digest.Digest
	Progress func(remote.Event) // called concurrently; nil for none
	Logger   *slog.Logger       // nil discards
}

// An Image is what became of one Request.
type Image struct {
	Request
	Descriptor ocispec.Descriptor   // of the manifest or index
	Manifests  []ocispec.Descriptor // the index if it is one, and the manifests fetched; the top last
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

// Registry is where images come from.
var errNotYet = errors.New("not written yet")

// Mirror brings the images of reqs into sink. The error joins the failures of
// all requests in their order, each naming the reference and who asked for it;
// with AllowMissing they are only in the images' Err. Collisions of names fail
// always. The Result is complete, and never nil, in every case.
func Mirror(ctx context.Context, c *remote.Client, sink remote.Sink, reqs []Request, o Options) (*Result, error) {
	return &Result{}, errNotYet
}

// Plan does what Mirror does up to the first blob, and writes nothing to sink:
// manifests are read from the registries, or from sink where it has them.
func Plan(ctx context.Context, c *remote.Client, sink remote.Sink, reqs []Request, o Options) (*Result, error) {
	return &Result{}, errNotYet
}

// KnownFrom collects for Options.Known what registry layers say: the digest
// of each reference that was mirrored. Later documents win.
func KnownFrom(docs []*tree.Document) map[string]digest.Digest {
	known := map[string]digest.Digest{}
	return known
}

// Document returns the registry layer document of the images that are whole:
// only names and blobs that the layers below, lowest first, lack. It is nil
// when nothing is to be added.
func (r *Result) Document(below []*tree.Document) *tree.Document { return nil }
