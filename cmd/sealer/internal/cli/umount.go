package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) umount() *cobra.Command {
	return &cobra.Command{
		Use:     "umount IMAGE|DIR...",
		Aliases: []string{"unmount"},
		Short:   "Undo sealer mount",
		Example: `  sealer umount /mnt
  sealer umount my-app:v1     # wherever it is mounted`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(func(s *store.Store) error {
				var errs []error
				for _, target := range args {
					done, err := s.Unmount(cmd.Context(), target)
					for _, m := range done {
						printLine(a.Out, "unmounted", m.Dir)
					}
					if errors.Is(err, store.ErrNotFound) {
						err = advise(err, "See what is mounted with: sealer mount")
					}
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
		},
	}
}
