package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) registry() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "registry",
		Short: "Use the container images inside ClusterImages: serve them, point clusters at them",
		Args:  subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.registryHosts(), a.registryPush(), a.registryServe())
	return cmd
}
