package transfer

import (
	"context"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
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
