package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/distribution/distribution/v3"
	"github.com/distribution/distribution/v3/registry/storage"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// VerifyOptions of Verify.
type VerifyOptions struct {
	Naming          tree.Naming
	PrivateRegistry string // name of the private registry; "" is ref.DefaultPrivate
	// Platforms must each be in every index that a reference names. An image that
	// is no index must be for each of them too, if its config names a platform.
	// With no Platforms, an index needs any one of its platforms.
	Platforms []ocispec.Platform
}

// A Missing is a reference that does not resolve to full content.
type Missing struct {
	Reference ref.Reference // as discovery recorded it
	Target    ref.Reference // as the cluster asks the private registry for it
	// Err joins everything that is missing: the tag, a revision, a platform,
	// blobs.
	Err error
}

// Error implements error.
func (m Missing) Error() string {
	return fmt.Sprintf("%s, in the registry as %s: %s", m.Reference, m.Target, m.Err)
}

// Unwrap returns Err.
func (m Missing) Unwrap() error { return m.Err }

// Verify checks completeness. Each of references is renamed as the cluster will
// ask for it, by its digest if it has one. It must resolve, in the union of the
// layers (lowest first), to a manifest with the right digest, and
// for each platform to its config and layers, all linked in the repository and of
// the recorded size.
//
// Verify reads through distribution's storage, as the handlers do. Blobs other
// than manifests are not hashed. The references that fail are returned in the
// order given. The error is about layers that cannot be opened.
func Verify(ctx context.Context, layers []Layer, references []ref.Reference, o VerifyOptions) (missing []Missing, err error) {
	if o.PrivateRegistry == "" {
		o.PrivateRegistry = ref.DefaultPrivate
	}
	l, err := openLayers(layers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	ctx = quieten(ctx, discard())
	namespace, err := storage.NewRegistry(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("verify registry: %w", err)
	}
	v := &verifier{namespace: namespace, platforms: o.Platforms, images: map[string]*image{}}
	errs := make([]error, len(references))
	var g errgroup.Group
	g.SetLimit(verifiers)
	for i, r := range references {
		g.Go(func() error {
			errs[i] = v.reference(ctx, o.Naming.Target(o.PrivateRegistry, r))
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for i, r := range references {
		if errs[i] != nil {
			missing = append(missing, Missing{r, o.Naming.Target(o.PrivateRegistry, r), errs[i]})
		}
	}
	return missing, nil
}

// verifiers is the number of images checked at a time. The work is half system
// calls, half decoding.
const verifiers = 4

type verifier struct {
	namespace distribution.Namespace
	platforms []ocispec.Platform

	mu     sync.Mutex
	images map[string]*image // by repository@digest
}

// An image is checked once, however many references name it.
type image struct {
	once sync.Once
	err  error
}

func (v *verifier) reference(ctx context.Context, r ref.Reference) error {
	name, err := reference.WithName(r.Repository)
	if err != nil {
		return err
	}
	repository, err := v.namespace.Repository(ctx, name)
	if err != nil {
		return err
	}
	if r.Digest != "" { // the tag beside it is not asked for
		return v.root(ctx, repository, r.Digest)
	}
	d, err := repository.Tags(ctx).Get(ctx, r.Tag)
	if err != nil {
		return fmt.Errorf("tag %s is not there%s", r.Tag, because(err))
	}
	return v.root(ctx, repository, d.Digest)
}

// root checks an image by digest, once for each repository.
func (v *verifier) root(ctx context.Context, repository distribution.Repository, d digest.Digest) error {
	key := repository.Named().Name() + "@" + d.String()
	v.mu.Lock()
	im := v.images[key]
	if im == nil {
		im = new(image)
		v.images[key] = im
	}
	v.mu.Unlock()
	im.once.Do(func() { im.err = v.manifest(ctx, repository, d, nil) })
	return im.err
}

// document is a manifest or an index.
type document struct {
	Config    ocispec.Descriptor   `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Manifests []ocispec.Descriptor `json:"manifests"`
}

// manifest checks the manifest or index d. above are the indexes on the way to d.
func (v *verifier) manifest(ctx context.Context, repository distribution.Repository, d digest.Digest, above []digest.Digest) error {
	const deepest = 4 // an index in an index is rare; a longer chain is a trap
	if len(above) > deepest {
		return fmt.Errorf("index %s: nested too deep", d)
	}
	service, err := repository.Manifests(ctx)
	if err != nil {
		return err
	}
	m, err := service.Get(ctx, d)
	if err != nil {
		return fmt.Errorf("manifest %s is not there%s", d, because(err))
	}
	_, payload, err := m.Payload()
	if err != nil {
		return fmt.Errorf("manifest %s: %w", d, err)
	}
	if got := d.Algorithm().FromBytes(payload); got != d {
		return fmt.Errorf("manifest %s: its content has the digest %s", d, got)
	}
	var doc document
	if err := json.Unmarshal(payload, &doc); err != nil {
		return fmt.Errorf("manifest %s: %w", d, err)
	}
	if doc.Manifests != nil {
		return v.index(ctx, repository, d, doc.Manifests, append(above, d))
	}
	var errs []error
	for i, b := range append([]ocispec.Descriptor{doc.Config}, doc.Layers...) {
		what := "layer"
		if i == 0 {
			what = "config"
		}
		if err := v.blob(ctx, repository, b); err != nil {
			errs = append(errs, fmt.Errorf("%s %s %w", what, b.Digest, err))
		}
	}
	if len(above) == 0 && len(errs) == 0 {
		return v.config(ctx, repository, doc.Config)
	}
	return errors.Join(errs...)
}

// config checks that an image without an index is for the platforms: only its
// config names one. The cluster's nodes would refuse it otherwise.
func (v *verifier) config(ctx context.Context, repository distribution.Repository, d ocispec.Descriptor) error {
	const most = 4 << 20 // bytes; a larger config is not read
	if len(v.platforms) == 0 || !platform.IsConfig(d.MediaType) || d.Size > most {
		return nil
	}
	b, err := repository.Blobs(ctx).Get(ctx, d.Digest)
	if err != nil {
		return fmt.Errorf("config %s: %w", d.Digest, err)
	}
	have, said, err := platform.OfConfig(b)
	if err != nil {
		return fmt.Errorf("config %s: %w", d.Digest, err)
	}
	for _, want := range v.platforms {
		if said && !platform.Match(want, have) {
			return fmt.Errorf("it is for %s only, not for %s", platform.String(have), platform.String(want))
		}
	}
	return nil
}

// index checks the entries of an index for each platform.
func (v *verifier) index(ctx context.Context, repository distribution.Repository, d digest.Digest, entries []ocispec.Descriptor, above []digest.Digest) error {
	if len(v.platforms) == 0 {
		err := errors.New("it has no entries")
		for _, e := range entries {
			if err = v.manifest(ctx, repository, e.Digest, above); err == nil {
				return nil
			}
		}
		return fmt.Errorf("index %s: no platform of it is there: %w", d, err)
	}
	var errs []error
	for _, p := range v.platforms {
		i := platform.Choose(p, entries)
		if i < 0 {
			errs = append(errs, fmt.Errorf("index %s has nothing for %s", d, platform.String(p)))
			continue
		}
		if err := v.manifest(ctx, repository, entries[i].Digest, above); err != nil {
			errs = append(errs, fmt.Errorf("for %s: %w", platform.String(p), err))
		}
	}
	return errors.Join(errs...)
}

func (v *verifier) blob(ctx context.Context, repository distribution.Repository, want ocispec.Descriptor) error {
	got, err := repository.Blobs(ctx).Stat(ctx, want.Digest)
	switch {
	case err != nil && foreign(want):
		return nil // the cluster fetches it from its URLs
	case err != nil:
		return fmt.Errorf("of %d bytes is not there%s", want.Size, because(err))
	case got.Size != want.Size:
		return fmt.Errorf("has %d bytes, want %d", got.Size, want.Size)
	}
	return nil
}

// foreign reports whether the publisher of a layer forbids copying it:
// "Non-Distributable Layers" of the OCI image specification, Docker's foreign
// layers.
func foreign(d ocispec.Descriptor) bool {
	return len(d.URLs) > 0 && (strings.Contains(d.MediaType, ".nondistributable.") || strings.Contains(d.MediaType, ".foreign."))
}

// because returns ": cause", or "" when err says only that something is missing.
func because(err error) string {
	var noTag distribution.ErrTagUnknown
	var noRepository distribution.ErrRepositoryUnknown
	var noRevision distribution.ErrManifestUnknownRevision
	if errors.As(err, &noTag) || errors.As(err, &noRepository) || errors.As(err, &noRevision) || errors.Is(err, distribution.ErrBlobUnknown) {
		return ""
	}
	return ": " + err.Error()
}
