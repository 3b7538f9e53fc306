package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/store"
)

func (a *app) export() *cobra.Command {
	var o store.ExportOptions
	var only platformFlag
	cmd := &cobra.Command{
		Use:   "export IMAGE DIR|-",
		Short: "Write the files of an image into a directory, or as a tar",
		Long: `Write the merged file tree of an image into DIR, which must be empty or new, or
as a tar to standard output: the files that sealer mount shows, the registry with
the container images inside as well. It needs no privilege. In DIR the files
belong to you and have no setuid bits; hard links and extended attributes do not
come along.`,
		Example: `  sealer export my-app:v1 ./files
  sealer export my-app:v1 --no-registry - | tar -tv`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Platform = only.Platform
			return a.withStore(func(s *store.Store) error {
				if args[1] != "-" {
					err := s.ExportDir(cmd.Context(), args[1], args[0], o)
					if errors.Is(err, fs.ErrExist) {
						err = advise(err, "Name a directory that is empty or does not exist")
					}
					return notFound(err)
				}
				if f, ok := a.raw.Out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
					return usagef("will not write a tar to the terminal: name a directory, or use a pipe")
				}
				return notFound(s.ExportTar(cmd.Context(), a.raw.Out, args[0], o))
			})
		},
	}
	cmd.Flags().Var(&only, "platform", "the platform of a multi-platform image")
	cmd.Flags().BoolVar(&o.NoRegistry, "no-registry", false, "leave the container images inside out")
	return cmd
}
