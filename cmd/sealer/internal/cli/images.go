package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// imageRow is a line of images: one name of an image in the store.
type imageRow struct {
	Name     string        `json:"name"`
	Digest   digest.Digest `json:"digest"`
	Type     string        `json:"type"`
	Platform string        `json:"platform"`
	Built    time.Time     `json:"built,omitzero"` // unknown of an image that came without it
	Added    time.Time     `json:"added,omitzero"` // when it was built here or came here
	Size     int64         `json:"size"`           // bytes, all layers
	Own      int64         `json:"own"`            // bytes that no other image here has
	Shared   int64         `json:"shared"`         // bytes that others have too
}

func (a *app) images() *cobra.Command {
	var o output
	var quiet bool
	cmd := &cobra.Command{
		Use:     "images [NAME...]",
		Aliases: []string{"ls"},
		Short:   "List the images in the store",
		Long: `List the images in the store: all, or those of a name. A NAME without a tag means
every tag of it; * and ? stand for what a name may hold, except for a slash.

BUILT is when the image was built: here, or as it says itself, which it does
where SOURCE_DATE_EPOCH was set. OWN is what no other image here has.`,
		Example: `  sealer images my-app
  sealer images 'registry.example/team/*'`,
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			for _, pattern := range args {
				if _, err := path.Match(pattern, ""); err != nil {
					return usagef("images %q: %w", pattern, err)
				}
			}
			var rows []imageRow
			err := a.withStore(func(s *store.Store) error {
				images, err := s.Summaries(cmd.Context())
				rows = slices.DeleteFunc(imageRows(images), func(r imageRow) bool { return !r.matches(args) })
				if _, statErr := os.Stat(s.Root()); errors.Is(statErr, fs.ErrNotExist) {
					// A mistyped --root looks like an empty store.
					printf(a.Err, "No store at %s: build, pull and load make one.\n", s.Root())
				}
				return err
			})
			if err != nil && len(rows) == 0 {
				return notFound(err)
			}
			print := func() error { return printIDs(a.Out, rows) }
			if !quiet {
				print = func() error {
					return o.print(a.Out, rows, func(w io.Writer) error { return printImages(w, rows) }, anys(rows)...)
				}
			}
			return errors.Join(print(), notFound(err)) // readable images are listed even if others are not
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only IDs")
	o.flags(cmd, "table")
	return cmd
}

func imageRows(images []store.Summary) []imageRow {
	rows := []imageRow{}
	for _, im := range images {
		row := imageRow{
			Digest: im.Descriptor.Digest, Type: im.Type, Platform: platform.String(im.Platform),
			Built: im.Built, Added: im.Added, Size: im.Size, Own: im.Own, Shared: im.Size - im.Own,
		}
		names := familiarAll(im.Names)
		if len(names) == 0 {
			names = []string{"<none>"}
		}
		for _, n := range names {
			row.Name = n
			rows = append(rows, row)
		}
	}
	return rows
}

// matches reports whether one of the patterns matches the row's name, with or
// without its tag, or the start of its ID. No patterns match every row.
func (r imageRow) matches(patterns []string) bool {
	name, err := ref.Parse(r.Name)
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		names := []string{r.Name}
		if err == nil {
			all := name.String()
			name.Tag, name.Digest = "", ""
			names = append(names, all, name.Name(), strings.TrimSuffix(name.Familiar(), ":latest"))
		}
		return slices.ContainsFunc(names, func(n string) bool { ok, _ := path.Match(p, n); return ok }) ||
			len(p) >= 4 && strings.HasPrefix(r.Digest.Encoded(), strings.TrimPrefix(p, "sha256:"))
	})
}

func printImages(w io.Writer, rows []imageRow) error {
	var cells [][]string
	for _, r := range rows {
		built := "-"
		if !r.Built.IsZero() {
			built = r.Built.Local().Format("2006-01-02 15:04")
		}
		cells = append(cells, []string{r.Name, shortID(r.Digest), r.Platform, built, size(r.Size), size(r.Own)})
	}
	return table(w, []string{"NAME", "ID", "PLATFORM", "BUILT", "SIZE", "OWN"}, cells)
}

// printIDs prints the ID of each image once, however many names and platforms it
// has, as arguments for rmi.
func printIDs(w io.Writer, rows []imageRow) error {
	printed := map[digest.Digest]bool{}
	for _, r := range rows {
		if !printed[r.Digest] {
			printLine(w, shortID(r.Digest))
		}
		printed[r.Digest] = true
	}
	return nil
}

// shortID returns the first 12 hex digits of a digest, as docker prints IDs.
func shortID(d digest.Digest) string { return d.Encoded()[:12] }

// anys turns a list into items for output.print.
func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}
