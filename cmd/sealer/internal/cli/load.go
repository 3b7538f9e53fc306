package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
)

func (a *app) load() *cobra.Command {
	var file string
	var keys []string
	var quiet bool
	var verify keyFlag
	cmd := &cobra.Command{
		Use:   "load [FILE...]",
		Short: "Bring images from a file, its parts or a directory into the store",
		Long: `Bring the images of a tar into the store: one that sealer save wrote, or an OCI
image layout of another tool, compressed or not. FILE may also be parts of such a
tar (FILE.part0001 ...), the file of their checksums (FILE.sha256), the directory
where that stands, or a directory that is an OCI image layout. Without FILE the
tar comes from standard input.

A damaged or missing part is named, and nothing is loaded then.`,
		Example: `  sealer load images.tar
  sealer load /mnt/usb                               # FILE.part0001 ... and FILE.sha256
  sealer load /mnt/a/v1.tar.part* /mnt/b/v1.tar.part*
  cat v1.tar.part* | sealer load --decrypt-with key.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file != "" {
				args = append(args, file)
			}
			if f, ok := a.In.(*os.File); ok && len(args) == 0 && term.IsTerminal(int(f.Fd())) {
				return usagef("load: standard input is a terminal; name the file: sealer load FILE")
			}
			key, err := verify.key()
			if err != nil {
				return err
			}
			return a.withStore(func(s *store.Store) error {
				var images []store.Image
				err := archive.Read(args, archive.ReadOptions{Stdin: interruptible(cmd.Context(), a.In), Keys: keys}, func(r io.Reader) (err error) {
					if isPipe(args) {
						r = interruptible(cmd.Context(), r)
					}
					images, err = s.LoadIf(cmd.Context(), cancelled{cmd.Context(), r}, judgeBy(key))
					return err
				})
				if err != nil {
					return loadAdvice(err)
				}
				return a.printLoaded(images, quiet)
			})
		},
	}
	cmd.Flags().StringVarP(&file, "input", "i", "", "the `file` to read, as FILE (default: standard input)")
	cmd.Flags().StringArrayVar(&keys, "decrypt-with", nil, "an age secret key in this `KEYFILE`; may be repeated")
	verify.flag(cmd.Flags(), "load images")
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only IDs")
	a.limitFlags(cmd.Flags())
	return cmd
}

// judgeBy returns the judge of an archive's images: each is signed with key. It is
// nil without a key.
func judgeBy(key *sign.Verifier) func(name string, d digest.Digest, list []sign.Signature) error {
	if key == nil {
		return nil
	}
	return func(name string, d digest.Digest, list []sign.Signature) error {
		if err := key.CheckAny(list, d); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
}

// printLoaded prints the images that came, or just their IDs.
func (a *app) printLoaded(images []store.Image, quiet bool) error {
	var summaries []store.Summary
	for _, im := range images {
		summaries = append(summaries, im.Summary())
	}
	rows := imageRows(summaries)
	if quiet {
		return printIDs(a.Out, rows)
	}
	for _, r := range rows {
		printf(a.Out, "%s  %s  %s\n", r.Name, r.Platform, r.Digest)
	}
	return nil
}

// loadAdvice adds the way out to an error of load.
func loadAdvice(err error) error {
	switch {
	case errors.Is(err, store.ErrLacks):
		return advise(err, "Load first the archive that this delta was made without, or save again with --without an inventory of this store: sealer inventory -o FILE")
	case errors.Is(err, sign.ErrSignature):
		return advise(err, "An archive carries the signatures that its image had where it was saved: sealer save --sign-by KEYFILE, push --sign-by, or pull of a signed image")
	case errors.Is(err, archive.ErrDamaged), errors.Is(err, archive.ErrMissing):
		return advise(err, "Copy these parts again; nothing was loaded.")
	case errors.Is(err, archive.ErrEncrypted):
		return advise(err, "Give the file with the secret key: --decrypt-with KEYFILE")
	}
	return err
}

// isPipe reports whether args name one file that may block.
func isPipe(args []string) bool {
	if len(args) != 1 {
		return false
	}
	fi, err := os.Stat(args[0])
	return err == nil && !fi.Mode().IsRegular() && !fi.IsDir()
}

// cancelled is a reader of a file that fails once ctx is done.
type cancelled struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (c cancelled) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.Reader.Read(b)
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
