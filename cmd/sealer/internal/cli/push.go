package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) push() *cobra.Command {
	var r registryFlags
	var quiet bool
	cmd := &cobra.Command{
		Use:   "push IMAGE [NAME]",
		Short: "Send an image to a registry",
		Long: `Send an image to the registry that its name begins with, or to the one of NAME.
Only what the registry lacks is sent. The digest there is the digest here.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := imageName(args[len(args)-1])
			if err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				p := a.newProgress(quiet)
				sent, err := transfer.Push(cmd.Context(), s, c, args[0], to, transfer.PushOptions{Progress: p.transfer})
				p.Close()
				if err != nil {
					return notFound(err)
				}
				if quiet {
					fmt.Fprintln(a.Out, sent.Digest)
					return nil
				}
				fmt.Fprintf(a.Out, "%s@%s\n", to, sent.Digest)
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only the digest")
	r.add(cmd.Flags())
	return cmd
}
