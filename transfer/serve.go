package transfer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// Images returns an image for each platform that the store has of it, or for p
// alone. The error wraps store.ErrNotFound when there is none.
func Images(ctx context.Context, s *store.Store, nameOrID string, p *ocispec.Platform) ([]*store.Image, error) {
	first, err := s.Image(ctx, nameOrID, p)
	if err != nil {
		return nil, err
	}
	if p != nil || len(first.Platforms) <= 1 {
		return []*store.Image{first}, nil
	}
	var out []*store.Image
	for _, p := range first.Platforms {
		im, err := s.Image(ctx, nameOrID, &p)
		if err != nil {
			return nil, err
		}
		out = append(out, im)
	}
	return out, nil
}

// A Served is the content of ClusterImages as one registry.
type Served struct {
	// Layers are the layers of the images, those of the first image lowest: where
	// two images have one tag, the registry answers with the later image's.
	Layers []digest.Digest
	// Options tell registry.NewHandler the names of the layers' content.
	Options registry.Options
}

// Contents collects the content that a registry with the images names serves: their content
// for the platform p, or for every platform where p is nil. An image in the store
// that is no ClusterImage is refused.
func Contents(ctx context.Context, s *store.Store, names []string, p *ocispec.Platform) (Served, error) {
	var out Served
	for _, name := range names {
		images, err := Images(ctx, s, name, p)
		if err != nil {
			return Served{}, err
		}
		for _, im := range images {
			err := image.Accept(&im.Manifest, func() ([]byte, error) { return s.ReadBlob(ctx, im.Manifest.Config.Digest, remote.MaxManifest) })
			if err != nil {
				return Served{}, fmt.Errorf("serve %s: %w", name, err)
			}
			out.add(im)
		}
	}
	return out, nil
}

func (v *Served) add(im *store.Image) {
	for _, id := range im.LayerIDs() {
		// A layer that an earlier image has, too, goes on top.
		v.Layers = append(slices.DeleteFunc(v.Layers, func(o digest.Digest) bool { return o == id }), id)
	}
	v.Options.Documents = append(v.Options.Documents, im.Documents...)
	v.Options.References = append(v.Options.References, im.Config.References()...)
	v.Options.PrivateRegistries = append(v.Options.PrivateRegistries, im.Config.PrivateRegistry.Name)
}

// A Handler serves container images out of a store. The caller closes it when no
// more requests come: then prune may take the layers.
type Handler struct {
	*registry.Handler
	release func() error
}

// NewHandler returns the handler of v. o adds to v.Options: users and logger. The
// layers are kept from prune until Close; a store that this user may not write
// is served without.
func NewHandler(ctx context.Context, s *store.Store, v Served, o registry.Options) (_ *Handler, err error) {
	o.Documents, o.References, o.PrivateRegistries = v.Options.Documents, v.Options.References, v.Options.PrivateRegistries
	release, err := s.Pin(ctx, v.Layers)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		release, err = func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := registry.NewHandler(ctx, layerDirs(s, v.Layers), o)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	return &Handler{h, release}, nil
}

// Close frees the layers.
func (h *Handler) Close() error { return errors.Join(h.Handler.Close(), h.release()) }

func layerDirs(s *store.Store, ids []digest.Digest) []string {
	dirs := make([]string, len(ids))
	for i, id := range ids {
		dirs[i] = s.LayerDir(id)
	}
	return dirs
}

// A Holding is the container images inside a ClusterImage, under the names by
// which its private registry serves them.
type Holding struct {
	image.PrivateRegistry
	Images []image.Served // of all platforms, in order
}

// Held returns the container images that the image nameOrID holds for the
// platform p, or for every platform where p is nil.
func Held(ctx context.Context, s *store.Store, nameOrID string, p *ocispec.Platform) (Holding, error) {
	images, err := Images(ctx, s, nameOrID, p)
	if err != nil {
		return Holding{}, err
	}
	out := Holding{PrivateRegistry: images[0].Config.PrivateRegistry}
	for _, im := range images {
		out.Images = append(out.Images, im.Config.Served(im.Documents)...)
	}
	return out, nil
}
