package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

func (a *app) gen() *cobra.Command {
	var o clusterFlags
	var only platformFlag
	cmd := &cobra.Command{
		Use:   "gen IMAGE",
		Short: "Print the Clusterfile of a cluster from an image",
		Long: `Print a Clusterfile: what the flags say, over the Clusterfile of -f, over the
etc/Clusterfile of the image. Keep it, change it, and make the cluster with
sealer apply -f. Every field: docs/clusterfile.md.

No password is printed. Write ${env:NAME} or ${file:PATH} for it; a password from
the environment's ` + passwordVariable + ` is printed as ${env:` + passwordVariable + `}.`,
		Example: `  sealer gen kubernetes:v1.33.13 -m 10.0.0.1-10.0.0.3 -n 10.0.0.4,10.0.0.5 > Clusterfile
  sealer gen kubernetes:v1.33.13 -f Clusterfile -e PodCIDR=10.9.0.0/16`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			layers, err := o.layers(a)
			if err != nil {
				return err
			}
			err = a.withStore(func(s *store.Store) error {
				im, err := s.Image(cmd.Context(), args[0], only.Platform)
				if err != nil {
					return notFound(err)
				}
				layers[0].Cluster.Image = args[0]
				image, err := imageClusterfile(cmd.Context(), s, im)
				layers = append(layers, image)
				return err
			})
			if err != nil {
				return err
			}
			return a.printClusterfile(layers)
		},
	}
	o.flags(cmd)
	cmd.Flags().Var(&only, "platform", "the platform of a multi-platform image")
	return cmd
}

// printClusterfile prints merged layers, with remarks for the reader.
func (a *app) printClusterfile(layers []*spec.File) error {
	f := spec.Merge(append(layers, spec.Defaults(""))...)
	a.warnSpec(f)
	// Without hosts, run takes this machine: no fault here.
	if err := spec.Validate(spec.Merge(f, spec.Defaults("127.0.0.1"))); err != nil {
		return err
	}
	if len(f.Cluster.Hosts) == 0 {
		printLine(a.Err, "There are no hosts: sealer apply makes this machine the only one. Name others with --masters and --nodes.")
	}
	text, err := spec.Print(f)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(f.Secrets(), func(s spec.Secret) bool { return !s.IsReference() }) {
		printf(a.Err, "A password is not printed: replace %s by ${env:NAME} or ${file:PATH}.\n", spec.Redacted)
	}
	_, err = a.Out.Write(text)
	return err
}
