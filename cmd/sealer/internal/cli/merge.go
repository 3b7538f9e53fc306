package cli

import (
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

func (a *app) merge() *cobra.Command {
	var tags []string
	var platforms string
	cmd := &cobra.Command{
		Use:   "merge IMAGE... -t NAME",
		Short: "Make one image of several",
		Long: `Make one image of several: their layers one after the other, a later image's files
over an earlier one's, and their start commands in that order. What they share is
there once. Two images that hold different container images under one name, or
different applications, do not merge.`,
		Example:           `  sealer merge kubernetes:v1.19.8 my-app:v1 -t my-cluster:v1`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			o := store.MergeOptions{Images: args, Version: Version}
			if len(tags) == 0 {
				return usagef("the result needs a name: -t NAME")
			}
			for _, t := range tags {
				name, err := imageName(t)
				if err != nil {
					return err
				}
				o.Names = append(o.Names, name)
			}
			var err error
			if o.Platforms, err = platform.ParseList(platforms); err != nil {
				return usageError{err}
			}
			return a.withStore(func(s *store.Store) error {
				d, err := s.Merge(cmd.Context(), o)
				if err != nil {
					return notFound(err)
				}
				_, err = printf(a.Out, "merged %s  %s\n", tags[0], d.Digest)
				return err
			})
		},
	}
	cmd.Flags().StringSliceVarP(&tags, "tag", "t", nil, "name of the result, repeatable")
	cmd.Flags().StringVar(&platforms, "platform", "", "only these platforms, separated by commas (default: all that every image has)")
	a.limitFlags(cmd.Flags())
	return cmd
}
