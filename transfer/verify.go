package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// VerifyOptions are the options of Verify. The zero value only looks.
type VerifyOptions struct {
	// Repair, when it is not nil, fetches broken content again: container images
	// from their sources, all else from the registries of the image's names.
	Repair *remote.Client
	// Shared, when it is not nil, lets several calls, one after another, read the
	// content that images share once.
	Shared *store.Shared
}

// A Verification is the result of Verify.
type Verification struct {
	*store.Verification
	// References is the number of container images that were asked for, once for
	// each platform.
	References int
	// Missing are the container images that the cluster will ask for and the
	// image does not hold. It is empty, and says nothing, while content is
	// broken.
	Missing []Missing
	// Gaps are the places whose images the build could not know.
	Gaps []Gap
}

// A Missing is a container image that one platform of a ClusterImage lacks.
type Missing struct {
	Platform ocispec.Platform
	Err      error // names the reference
}

// Error implements error.
func (m Missing) Error() string { return platform.String(m.Platform) + ": " + m.Err.Error() }

// Unwrap returns Err.
func (m Missing) Unwrap() error { return m.Err }

// A Gap is a gap that one platform of a ClusterImage recorded.
type Gap struct {
	Platform ocispec.Platform
	image.Gap
}

// Verify reads every byte of the image nameOrID, as store.Verify does, and then
// checks each platform for completeness. The error is about content that could not be
// looked at.
func Verify(ctx context.Context, s *store.Store, nameOrID string, o VerifyOptions) (*Verification, error) {
	so := store.VerifyOptions{Shared: o.Shared}
	if o.Repair != nil {
		so.Repair = newRepairer(ctx, s, o.Repair, nameOrID).fetch
	}
	bytes, err := s.Verify(ctx, nameOrID, so)
	out := &Verification{Verification: bytes}
	if err != nil || len(bytes.Broken()) > 0 {
		return out, err
	}
	images, err := Images(ctx, s, nameOrID, nil)
	if err != nil {
		return out, err
	}
	for _, im := range images {
		if err := out.complete(ctx, s, im); err != nil {
			return out, err
		}
	}
	out.Gaps = Gaps(images)
	return out, nil
}

// complete checks one platform of an image.
func (v *Verification) complete(ctx context.Context, s *store.Store, im *store.Image) error {
	c := &im.Config
	references := c.References()
	missing, err := Lacking(ctx, s, im.LayerIDs(), references, registry.VerifyOptions{
		Naming: c.PrivateRegistry.Naming, PrivateRegistry: c.PrivateRegistry.Name, Platforms: []ocispec.Platform{im.Platform()},
	})
	if err != nil {
		return err
	}
	v.References += len(references)
	for _, m := range c.Images {
		if m.Lacks() {
			v.Missing = append(v.Missing, Missing{im.Platform(), fmt.Errorf("%s: %s", m.Reference, m.Missing)})
		}
	}
	for _, m := range missing {
		v.Missing = append(v.Missing, Missing{im.Platform(), m})
	}
	return nil
}

// Gaps returns the gaps that images recorded, in their order.
func Gaps(images []*store.Image) []Gap {
	var out []Gap
	for _, im := range images {
		for _, g := range im.Config.Gaps {
			out = append(out, Gap{im.Platform(), g})
		}
	}
	return out
}

// RegistryLayers returns those of the layers ids that hold a registry tree.
func RegistryLayers(s *store.Store, ids []digest.Digest) []digest.Digest {
	var out []digest.Digest
	for _, id := range ids {
		if _, err := os.Lstat(filepath.Join(s.LayerDir(id), tree.Root)); err == nil || s.IsUnwritten(id) {
			out = append(out, id)
		}
	}
	return out
}

// Lacking returns those of references that the registry layers among ids, lowest
// first, do not hold with all their content, as registry.Verify does.
func Lacking(ctx context.Context, s *store.Store, ids []digest.Digest, references []ref.Reference, o registry.VerifyOptions) ([]registry.Missing, error) {
	layers, err := trees(ctx, s, ids)
	if err != nil {
		return nil, err
	}
	return registry.Verify(ctx, layers, references, o)
}

// Scan finds the container images that the files of the image nameOrID ask for,
// its base's files too: for the platform p, or for this machine's where p is nil.
// The image decides which registry is the private one.
func Scan(ctx context.Context, s *store.Store, nameOrID string, p *ocispec.Platform, o imagelist.Options) (_ *imagelist.Result, err error) {
	im, err := s.Image(ctx, nameOrID, p)
	if err != nil {
		return nil, err
	}
	root, err := s.Rootfs(im.LayerIDs())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	o.PrivateRegistry = im.Config.PrivateRegistry.Name
	return imagelist.Scan(ctx, root, o)
}
