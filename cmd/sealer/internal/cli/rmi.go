package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) rmi() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rmi IMAGE...",
		Short: "Remove images from the store",
		Long: `Remove names from the store. With its last name an image goes, and with it the
layers and blobs that no other image needs. An ID removes the image with all
its names.`,
		Example: `  sealer rmi my-app:v1
  sealer rmi 6eac04e8f51c     # with all its names`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(func(s *store.Store) error {
				var errs []error
				for _, r := range s.RemoveAll(cmd.Context(), args) {
					if r.Err != nil {
						errs = append(errs, notFound(r.Err))
					}
					for _, n := range r.Names {
						printLine(a.Out, "removed name", familiar(n))
					}
					if r.ID != "" {
						printLine(a.Out, "removed image", r.ID)
					}
					if r.Kept != nil {
						printf(a.Err, "its space is not freed: %v. Free it later with: sealer prune --wait\n", r.Kept)
					}
				}
				return errors.Join(errs...)
			})
		},
	}
	a.waitFlag(cmd.Flags())
	return cmd
}
