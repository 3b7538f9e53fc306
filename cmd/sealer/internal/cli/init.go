package cli

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/redirect"
)

//go:embed contexts
var contexts embed.FS

func (a *app) initialise() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a build context to start from",
		Long: `Write a build context to start from, as plain files to read and edit. A second
run changes nothing; a directory with anything else in it is refused unless
--force is given, which replaces files of the same name and keeps the rest.`,
		Args: subcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.initContext("app", "Write the build context of an application"),
		a.initContext("base", "Write the build context of a base that starts a cluster"),
		a.initKyverno(),
	)
	return cmd
}

// initContext is the command for a context without options.
func (a *app) initContext(name, short string) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   name + " [DIR]",
		Short: short,
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := contextFiles("contexts/" + name)
			if err != nil {
				return err
			}
			return a.writeFiles(directory(args), files, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "write into a directory that is not empty")
	return cmd
}

func contextFiles(root string) ([]redirect.File, error) {
	var files []redirect.File
	err := fs.WalkDir(contexts, root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := contexts.ReadFile(name)
		files = append(files, redirect.File{Path: strings.TrimPrefix(name, root+"/"), Content: b, Executable: strings.HasSuffix(name, ".sh")})
		return err
	})
	return files, err
}

func directory(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return "."
}

// writeFiles writes files below dir and prints for each whether it was written or
// kept.
func (a *app) writeFiles(dir string, files []redirect.File, force bool) error {
	written, err := redirect.Write(dir, files, force)
	for _, w := range written {
		printf(a.Out, "%-10s %s\n", w.State, w.Path)
	}
	if errors.Is(err, redirect.ErrOccupied) {
		return advise(err, "Choose a new directory, or replace what is there with --force")
	}
	return err
}
