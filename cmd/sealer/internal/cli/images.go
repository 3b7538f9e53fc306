package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

// imageRow is one name of an image in the store, as images prints it.
type imageRow struct {
	Name     string        `json:"name"`
	Digest   digest.Digest `json:"digest"`
	Type     string        `json:"type"`
	Platform string        `json:"platform"`
	Built    time.Time     `json:"built"`
	Size     int64         `json:"size"` // bytes, all layers
}

func (a *app) images() *cobra.Command {
	var o output
	var quiet bool
	cmd := &cobra.Command{
		Use:     "images",
		Aliases: []string{"ls"},
		Short:   "List the images in the store",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			var rows []imageRow
			err := a.withStore(func(s *store.Store) error {
				images, err := s.Images(cmd.Context())
				rows = imageRows(images)
				return err
			})
			if err != nil {
				return err
			}
			if quiet {
				for _, r := range rows {
					fmt.Fprintln(a.Out, shortID(r.Digest))
				}
				return nil
			}
			return o.print(a.Out, rows, func(w io.Writer) error { return printImages(w, rows) }, anys(rows)...)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only IDs")
	o.flags(cmd, "table")
	return cmd
}

func imageRows(images []store.Image) []imageRow {
	rows := []imageRow{}
	for _, im := range images {
		row := imageRow{Digest: im.Descriptor.Digest, Type: im.Config.Type, Platform: platform.String(im.Config.Platform), Built: im.Built, Size: im.Size}
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

func printImages(w io.Writer, rows []imageRow) error {
	var cells [][]string
	for _, r := range rows {
		cells = append(cells, []string{r.Name, shortID(r.Digest), r.Platform, r.Built.Local().Format("2006-01-02 15:04:05"), size(r.Size)})
	}
	return table(w, []string{"NAME", "ID", "PLATFORM", "BUILT", "SIZE"}, cells)
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
