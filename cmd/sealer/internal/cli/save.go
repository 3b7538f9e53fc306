package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

type saveFlags struct {
	file, platforms, compress, split, signBy string
	without, recipients                      []string
}

func (a *app) save() *cobra.Command {
	f := &saveFlags{}
	cmd := &cobra.Command{
		Use:   "save IMAGE... -o FILE",
		Short: "Write images to a tar, an OCI image layout",
		Long: `Write images to a tar, an OCI image layout with each blob once: for sealer load
where there is no registry, and for tools that read oci-archive.

With --without the tar is a delta: it lacks the blobs that the far side has, as an
inventory of it says (sealer inventory), or because an image or an archive was
loaded there before. sealer load refuses it where such a blob is missing.

With --split the tar comes in parts, FILE.part0001 and so on, and FILE.sha256, which
sealer load and sha256sum -c read. The SHA-256 of every file is printed.

The archive carries the signatures of the images that the store has: of --sign-by, of
sealer push --sign-by, or of a pull.`,
		Example: `  sealer save my-app:v1 base:v1 -o images.tar
  sealer save my-app:v2 --without my-app:v1 -o v2.tar
  sealer save my-app:v2 --without site.inv -o v2.tar
  sealer save my-app:v1 -o v1.tar --split 4GiB --encrypt-to age1...
  sealer save my-app:v1 --platform linux/arm64 | ssh host sealer load`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runSave(cmd.Context(), f, args) },
	}
	cmd.Flags().StringVar(&f.compress, "compress", "none", "compress the tar: zstd or none. Layers are compressed already")
	cmd.Flags().StringVar(&f.signBy, "sign-by", "", "sign the images with the private key in this `KEYFILE`, for sealer load --verify-key; COSIGN_PASSWORD is its password")
	cmd.Flags().StringVar(&f.split, "split", "", "write parts of at most this `SIZE`, such as 4GiB, and a file of their checksums; needs -o")
	cmd.Flags().StringArrayVar(&f.recipients, "encrypt-to", nil, "encrypt with age for this `RECIPIENT`, a public key (age1...) or a file of them; may be repeated")
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "the `file` to write (default: standard output)")
	cmd.Flags().StringArrayVar(&f.without, "without", nil, "leave out the blobs of this `INVENTORY|IMAGE|ARCHIVE`: a file, or an image of the store; may be repeated")
	cmd.Flags().StringVar(&f.platforms, "platform", "", "only these platforms, separated by commas (default all); one alone is saved as an image for one platform")
	return cmd
}

func (a *app) runSave(ctx context.Context, f *saveFlags, images []string) error {
	list, err := platform.ParseList(f.platforms)
	if err != nil {
		return usageError{err}
	}
	w, err := writeOptions(f.compress, f.split, f.recipients)
	if err != nil {
		return err
	}
	key, err := signer(f.signBy)
	if err != nil {
		return err
	}
	return a.withStore(func(s *store.Store) error {
		if err := signHere(ctx, s, key, images); err != nil {
			return err
		}
		inventory, err := transfer.Without(ctx, s, f.without, list)
		if err != nil {
			return notFound(err)
		}
		return a.saveTo(f.file, w, func(w io.Writer) error {
			saved, err := s.Save(ctx, w, images, store.SaveOptions{Platforms: list, Without: inventory})
			a.tellSaved(saved, err == nil && len(f.without) > 0)
			return notFound(err)
		})
	})
}

// signHere signs images of the store with key, which may be nil.
func signHere(ctx context.Context, s *store.Store, key *sign.Signer, names []string) error {
	if key == nil {
		return nil
	}
	for _, name := range names {
		if err := transfer.SignHere(ctx, s, key, name); err != nil {
			return notFound(err)
		}
	}
	return nil
}

// writeOptions returns the form of an archive, by the values of flags.
func writeOptions(compress, split string, recipients []string) (archive.WriteOptions, error) {
	w := archive.WriteOptions{Compress: compress == "zstd", Recipients: recipients}
	if compress != "zstd" && compress != "none" {
		return w, usagef("--compress %q: want zstd or none", compress)
	}
	if split == "" {
		return w, nil
	}
	var err error
	if w.Split, err = archive.ParseSize(split); err != nil {
		return w, usagef("--split: %w", err)
	}
	return w, nil
}

// tellSaved says on stderr how much a delta left out, and which images lost their
// signatures.
func (a *app) tellSaved(saved store.Saved, delta bool) {
	if delta {
		printf(a.Err, "left out %d of %d blobs, %s; the far side needs them\n", saved.LeftOutBlobs, saved.Blobs+saved.LeftOutBlobs, size(saved.LeftOutBytes))
	}
	for _, name := range saved.Unsigned {
		printf(a.Err, "warning: %s is saved without its signature, which is of the image for all platforms\n", name)
	}
}

// saveTo writes an archive to a file, or to standard output where file is empty, and
// says the file, the bytes and the SHA-256.
func (a *app) saveTo(file string, o archive.WriteOptions, write func(io.Writer) error) error {
	if file != "" && file != "-" {
		files, err := archive.Create(file, o, write)
		for _, f := range files {
			printf(a.Out, "%s  %d bytes  %s\n", f.Name, f.Size, f.Digest)
		}
		return err
	}
	if o.Split > 0 {
		return usagef("--split needs a name for the parts: -o FILE")
	}
	if a.outIsTerminal() {
		return usagef("will not write a tar to the terminal: use -o FILE or a pipe")
	}
	f, err := archive.Stream(a.raw.Out, o, write)
	if err == nil {
		printf(a.Err, "standard output  %d bytes  %s\n", f.Size, f.Digest)
	}
	return err
}

// outIsTerminal reports whether results go to a terminal.
func (a *app) outIsTerminal() bool {
	f, ok := a.raw.Out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
