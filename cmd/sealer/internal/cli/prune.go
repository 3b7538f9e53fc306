package cli

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) prune() *cobra.Command {
	var o output
	var p store.PruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Drop what no image in the store needs",
		Long: `Drop blobs and layers that no image in the store needs, and what interrupted
commands left. The beginning of a large blob that broke off is kept for a week, so
that the next pull or build goes on there. Beside a running build only what
interrupted commands left goes: the rest could be what it is about to use. --wait
waits until such commands are done.

Content that a damaged image may need stays; all else goes, and the exit code is 3.`,
		Example: `  sealer prune                # blobs and layers that no image needs
  sealer prune --cache        # the build cache, too`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				done, err := s.Prune(cmd.Context(), p)
				if done == nil {
					return err
				}
				print := func(w io.Writer) error { return printPruned(w, done, p.DryRun) }
				if perr := o.print(a.Out, done, print, anys(done.Items)...); perr != nil {
					return errors.Join(err, perr)
				}
				if errors.Is(err, store.ErrBusy) {
					return advise(err, "Run sealer prune again when it is done, or wait for it with: sealer prune --wait")
				}
				return pruneError(err)
			})
		},
	}
	cmd.Flags().BoolVarP(&p.DryRun, "dry-run", "n", false, "only say what would go")
	cmd.Flags().BoolVar(&p.Cache, "cache", false, "empty the build cache too, and drop the beginnings of blobs that broke off")
	a.waitFlag(cmd.Flags())
	o.flags(cmd, "text")
	return cmd
}

// pruneError makes a prune exit with 3 that did its work, but for what damaged
// images may need.
func pruneError(err error) error {
	if err == nil || slices.ContainsFunc(faults(err), func(e error) bool { return !errors.Is(e, store.ErrDamaged) }) {
		return err
	}
	return incompleteError{err}
}

func printPruned(w io.Writer, p *store.Pruned, dry bool) error {
	for _, g := range p.Items {
		printf(w, "%-9s  %9s  %s\n", g.Kind, size(g.Size), g.Path)
	}
	verb := "freed"
	if dry {
		verb = "would free"
	}
	_, err := printf(w, "%s %s\n", verb, size(p.Size))
	return err
}
