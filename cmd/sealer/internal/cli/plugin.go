package cli

import (
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster/extend"
)

func (a *app) plugin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Make programs that work at the phases of a cluster",
		Args:  subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.pluginBuild())
	return cmd
}

func (a *app) pluginBuild() *cobra.Command {
	var o extend.BuildOptions
	cmd := &cobra.Command{
		Use:   "build FILE.go",
		Short: "Compile a Go plugin of sealer 0.8 to a program",
		Long: `Compile a plugin that was written for sealer 0.8 to a static program: one Go file,
package main, with the variables Plugin and PluginType. The file stays as it is; it
may import Go's own library and sealer's packages plugin, client/k8s, types/api/v1,
types/api/v2 and logger. The go command is needed, a network is not; the first time
it compiles Go's own library too, which takes a minute or two.

Copy the program to plugins/ of the image, beside the Plugin document that names its
type. Unlike a .so file, the program runs with every version of sealer.`,
		Example: `  sealer plugin build list_nodes.go -o list_nodes
  sealer plugin build list_nodes.go -o arm64/list_nodes --arch arm64`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.File = args[0]
			if filepath.Ext(o.File) != ".go" {
				return usagef("%s: want a Go file", o.File)
			}
			if o.Out == "" {
				o.Out = strings.TrimSuffix(filepath.Base(o.File), ".go")
			}
			if err := extend.Build(cmd.Context(), o); err != nil {
				return err
			}
			printLine(a.Out, o.Out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&o.Out, "output", "o", "", "the program to write (default: the file's name without .go)")
	cmd.Flags().StringVar(&o.Arch, "arch", "", "amd64, arm64, …: the machines that it is for (default: this one's)")
	return cmd
}
