package cli

import (
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) tag() *cobra.Command {
	return &cobra.Command{
		Use:               "tag IMAGE NAME",
		Short:             "Give an image one more name",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := imageName(args[1])
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error { return notFound(s.Tag(cmd.Context(), args[0], name)) })
		},
	}
}
