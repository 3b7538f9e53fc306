package cli

import (
	"context"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

func (a *app) registry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Use the container images inside ClusterImages: serve them, point clusters at them",
		Args:  subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.registryHosts(), a.registryPush(), a.registryServe())
	return cmd
}

// served collects what a registry serves: the layers of images, those of the
// first image lowest, and the names that are known for what is in them. Of an
// image for several platforms all are taken, or p.
func served(ctx context.Context, s *store.Store, names []string, p *ocispec.Platform) (layers []digest.Digest, o registry.Options, err error) {
	for _, name := range names {
		platforms, err := platformsOf(ctx, s, name, p)
		if err != nil {
			return nil, o, err
		}
		for _, p := range platforms {
			im, err := s.Image(ctx, name, &p)
			if err != nil {
				return nil, o, err
			}
			for _, id := range im.LayerIDs() {
				// Also one that an earlier image has too goes on top: where
				// tags conflict, this image's is served.
				layers = append(slices.DeleteFunc(layers, func(o digest.Digest) bool { return o == id }), id)
			}
			o.Documents = append(o.Documents, im.Documents...)
			o.References = append(o.References, mirroredReferences(im)...)
			o.Private = append(o.Private, im.Config.Registry.Name)
		}
	}
	return layers, o, nil
}

// platformsOf returns the platforms of an image: p, or all that the store has.
func platformsOf(ctx context.Context, s *store.Store, name string, p *ocispec.Platform) ([]ocispec.Platform, error) {
	im, err := s.Image(ctx, name, p)
	if err != nil {
		return nil, notFound(err)
	}
	if p != nil || len(im.Platforms) == 0 {
		return []ocispec.Platform{im.Config.Platform}, nil
	}
	return im.Platforms, nil
}

// mirroredReferences returns the references of the container images that im
// claims to hold.
func mirroredReferences(im *store.Image) []ref.Reference {
	var out []ref.Reference
	for _, m := range im.Config.Images {
		if r, err := ref.Parse(m.Reference); err == nil && m.Missing == "" {
			out = append(out, r)
		}
	}
	return out
}
