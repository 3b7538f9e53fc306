package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) save() *cobra.Command {
	var file, platforms string
	var without []string
	cmd := &cobra.Command{
		Use:   "save IMAGE... -o FILE",
		Short: "Write images to a tar, an OCI image layout",
		Long: `Write images to a tar, an OCI image layout with each blob once: for sealer load
where there is no registry, and for tools that read oci-archive.

With --without the tar is a delta: it lacks the blobs that the far side has, as an
inventory of it says (sealer inventory), or because an image or an archive was
loaded there before. sealer load refuses it where such a blob is missing.`,
		Example: `  sealer save my-app:v1 base:v1 -o images.tar
  sealer save my-app:v2 --without my-app:v1 -o v2.tar
  sealer save my-app:v2 --without site.inv -o v2.tar
  sealer save my-app:v1 --platform linux/arm64 | ssh host sealer load`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := platform.ParseList(platforms)
			if err != nil {
				return usageError{err}
			}
			return a.withStore(func(s *store.Store) error {
				o := store.SaveOptions{Platforms: list}
				if o.Without, err = transfer.Without(cmd.Context(), s, without, list); err != nil {
					return notFound(err)
				}
				write := func(w io.Writer) error {
					saved, err := s.Save(cmd.Context(), w, args, o)
					if err == nil && len(without) > 0 {
						fmt.Fprintf(a.Err, "left out %d of %d blobs, %s; the far side needs them\n", saved.LeftOutBlobs, saved.Blobs+saved.LeftOutBlobs, size(saved.LeftOutBytes))
					}
					return notFound(err)
				}
				if file != "" && file != "-" {
					return writeFile(file, 0o600, write) // programs and configuration may be secret
				}
				if f, ok := a.raw.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
					return usagef("will not write a tar to the terminal: use -o FILE or a pipe")
				}
				return write(a.raw)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the `file` to write (default: standard output)")
	cmd.Flags().StringArrayVar(&without, "without", nil, "leave out the blobs of this `INVENTORY|IMAGE|ARCHIVE`: a file, or an image of the store; may be repeated")
	cmd.Flags().StringVar(&platforms, "platform", "", "only these platforms, separated by commas (default all); one alone is saved as an image for one platform")
	return cmd
}

// writeFile makes a file with the permissions perm appear once write has written
// all of it and the disk has it: until then a file of that name stays as it was.
// An existing pipe or device is written to instead of replaced, and a link is
// followed.
func writeFile(name string, perm fs.FileMode, write func(io.Writer) error) (err error) {
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
			if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) { // it has its name already
				err = errors.Join(err, rerr)
			}
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(perm), f.Sync(), f.Close()); err != nil { // before the old file is gone
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return syncParent(name)
}

// syncParent flushes the name of a file. Windows, whose file systems keep names in
// a journal, flushes no directory.
func syncParent(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return nil // it may be written to, and not read
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write %s: flush its directory: %w", name, err)
	}
	return nil
}
