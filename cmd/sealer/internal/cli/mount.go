package cli

import (
	"errors"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) mount() *cobra.Command {
	var o output
	var only platformFlag
	cmd := &cobra.Command{
		Use:   "mount [IMAGE [DIR]]",
		Short: "Show the files of an image in a directory, read-only",
		Long: `Mount the merged file tree of an image read-only with overlayfs, at DIR or in the
store, and print where. Without arguments, list what is mounted. Only root may
mount. The image's layers stay until sealer umount, whatever is removed.`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				if len(args) == 0 {
					return a.printMounts(&o, s)
				}
				options := store.MountOptions{Platform: only.Platform}
				if len(args) == 2 {
					options.Dir = args[1]
				}
				m, err := s.Mount(cmd.Context(), args[0], options)
				if errors.Is(err, fs.ErrPermission) {
					return advise(err, "Run it as root, or write the files without root: sealer export "+args[0]+" DIR")
				}
				if err != nil {
					return notFound(err)
				}
				return o.print(a.Out, m, func(w io.Writer) error { _, err := printLine(w, m.Dir); return err })
			})
		},
	}
	cmd.Flags().Var(&only, "platform", "the platform of a multi-platform image")
	o.flags(cmd, "text")
	return cmd
}

func (a *app) printMounts(o *output, s *store.Store) error {
	all, err := s.Mounts()
	if err != nil {
		return err
	}
	return o.print(a.Out, all, func(w io.Writer) error {
		var rows [][]string
		for _, m := range all {
			rows = append(rows, []string{m.Image, m.ID[:12], m.Dir})
		}
		return table(w, []string{"IMAGE", "ID", "DIRECTORY"}, rows)
	}, anys(all)...)
}
