package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

func (a *app) save() *cobra.Command {
	var file, platforms string
	cmd := &cobra.Command{
		Use:   "save IMAGE... -o FILE",
		Short: "Write images to a tar, an OCI image layout",
		Long: `Write images to a tar, an OCI image layout with each blob once: for sealer load
where there is no registry, and for tools that read oci-archive.`,
		Example: `  sealer save my-app:v1 base:v1 -o images.tar
  sealer save my-app:v1 --platform linux/arm64 | ssh host sealer load`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := platform.ParseList(platforms)
			if err != nil {
				return usageError{err}
			}
			return a.withStore(func(s *store.Store) error {
				write := func(w io.Writer) error {
					return notFound(s.Save(cmd.Context(), w, args, store.SaveOptions{Platforms: list}))
				}
				if file != "" && file != "-" {
					return writeFile(file, write)
				}
				if f, ok := a.raw.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
					return usagef("will not write a tar to the terminal: use -o FILE or a pipe")
				}
				return write(a.raw)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the `file` to write (default: standard output)")
	cmd.Flags().StringVar(&platforms, "platform", "", "only these platforms, separated by commas (default all); one alone is saved as an image for one platform")
	return cmd
}

// writeFile makes a file appear once write has written all of it. A pipe or a
// device of that name is written to, not replaced; a link is followed.
func writeFile(name string, write func(io.Writer) error) (err error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("write %s: it is a directory", name)
	} else if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o644), f.Sync(), f.Close(), os.Rename(f.Name(), name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
