package cli

import (
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) tag() *cobra.Command {
	return &cobra.Command{
		Use:               "tag IMAGE NAME",
		Short:             "Give an image one more name",
		Long:              `Give an image one more name. Another image that has the name loses it.`,
		Example:           `  sealer tag my-app:v1 registry.example/team/my-app:v1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := imageName(args[1])
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				if err := s.Tag(cmd.Context(), args[0], name); err != nil {
					return notFound(err)
				}
				im, err := s.Image(cmd.Context(), name.String(), nil)
				if err == nil {
					printf(a.Out, "tagged %s  %s\n", name.Familiar(), im.Descriptor.Digest)
				}
				return notFound(err)
			})
		},
	}
}
