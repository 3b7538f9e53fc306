package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/store"
)

func (a *app) load() *cobra.Command {
	var file string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "load -i FILE",
		Short: "Bring images from a tar into the store",
		Long: `Bring the images of a tar into the store: one that sealer save wrote, or an OCI
image layout of another tool, compressed or not.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in := a.In
			if file != "" && file != "-" {
				f, err := os.Open(file)
				if err != nil {
					return fmt.Errorf("load: %w", err)
				}
				defer f.Close()
				in = f
			}
			return a.withStore(func(s *store.Store) error {
				images, err := s.Load(cmd.Context(), interruptible(cmd.Context(), in))
				if errors.Is(err, store.ErrLacks) {
					return advise(err, "Load first the archive that this delta was made without, or save again with --without an inventory of this store: sealer inventory -o FILE")
				}
				if err != nil {
					return err
				}
				rows := imageRows(images)
				if quiet {
					return printIDs(a.Out, rows)
				}
				for _, r := range rows {
					fmt.Fprintf(a.Out, "%s  %s  %s\n", r.Name, r.Platform, r.Digest)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVarP(&file, "input", "i", "", "the `file` to read (default: standard input)")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only IDs")
	a.limitFlags(cmd.Flags())
	return cmd
}

// interruptible returns a reader of r that fails as soon as ctx is done. Reading
// r itself would block on a pipe without a writer.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	pr, pw := io.Pipe()
	context.AfterFunc(ctx, func() { pw.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{pw}, struct{ io.Reader }{r}, make([]byte, 128<<10))
		pw.CloseWithError(err) // CloseWithError(nil) is io.EOF
	}()
	return pr
}
