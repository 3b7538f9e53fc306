package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/transfer"
)

// searchRow is a line of search: a tag of a repository, or a repository of a
// registry.
type searchRow struct {
	Name      string        `json:"name"`
	Digest    digest.Digest `json:"digest,omitempty"`
	Cluster   bool          `json:"clusterImage,omitempty"`
	Platforms []string      `json:"platforms,omitempty"`
	Size      int64         `json:"size,omitempty"` // of an image for one platform
	Created   time.Time     `json:"created,omitzero"`
	Error     string        `json:"error,omitempty"`
}

func (a *app) search() *cobra.Command {
	var r registryFlags
	var o output
	var quiet bool
	cmd := &cobra.Command{
		Use:   "search HOST/REPOSITORY[:TAG] | HOST",
		Short: "List the tags of a repository, or the repositories of a registry",
		Long: `List the tags of a repository in a registry with their digests, platforms and age,
or, given a registry alone, its repositories, where it shows a catalog. AGE is what
the image says of itself. Tags of signatures and other attachments are counted on
stderr.`,
		Example: `  sealer search registry.example.com/team/my-app
  sealer search registry.example.com -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := a.client(&r)
			if err != nil {
				return err
			}
			rows, err := a.found(cmd.Context(), c, strings.TrimSuffix(args[0], "/"), quiet)
			if rows == nil {
				return err
			}
			if quiet {
				for _, row := range rows {
					printLine(a.Out, row.Name)
				}
				return err
			}
			return errors.Join(o.print(a.Out, rows, func(w io.Writer) error { return printTags(w, rows) }, anys(rows)...), err)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print only names, and read no manifests")
	r.add(cmd.Flags())
	o.flags(cmd, "table")
	return cmd
}

// found returns the rows for what was asked. With an error, too, rows are those that
// could be read.
func (a *app) found(ctx context.Context, c *remote.Client, what string, quiet bool) ([]searchRow, error) {
	rows := []searchRow{}
	if ref.CheckHost(what) == nil {
		list, err := c.Catalog(ctx, what)
		if errors.Is(err, remote.ErrNotFound) || errors.Is(err, remote.ErrUnauthorized) {
			err = advise(err, "That registry shows no catalog to this user: name a repository, sealer search "+what+"/REPOSITORY, or log in with sealer login "+what)
		}
		if err != nil {
			return nil, err
		}
		for _, name := range list {
			rows = append(rows, searchRow{Name: what + "/" + name})
		}
		return rows, nil
	}
	r, err := ref.Parse(what)
	if err != nil {
		return nil, usageError{err}
	}
	if r.Digest != "" {
		return nil, usagef("search %s: want a repository, or one tag of it", what)
	}
	only := strings.Contains(what[strings.LastIndexByte(what, '/')+1:], ":")
	if quiet && !only {
		tags, err := c.Tags(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, t := range tags {
			r.Tag = t
			rows = append(rows, searchRow{Name: r.Familiar()})
		}
		return rows, nil
	}
	tags, attachments, err := transfer.Search(ctx, c, r, only)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, t := range tags {
		r.Tag = t.Tag
		row := searchRow{Name: r.Familiar(), Digest: t.Digest, Cluster: t.Cluster, Size: t.Size, Created: t.Created}
		for _, p := range t.Platforms {
			row.Platforms = append(row.Platforms, platform.String(p))
		}
		if t.Err != nil {
			row.Error = t.Err.Error()
			errs = append(errs, fmt.Errorf("search %s: %w", r.Familiar(), t.Err))
		}
		rows = append(rows, row)
	}
	if attachments > 0 {
		printf(a.Err, "and %s with signatures and other attachments\n", counted(attachments, "tag", "tags"))
	}
	return rows, errors.Join(errs...)
}

func printTags(w io.Writer, rows []searchRow) error {
	var cells [][]string
	for _, r := range rows {
		if r.Error != "" {
			continue // it is told as an error
		}
		id, age, bytes := "-", "-", "-"
		if r.Digest != "" {
			id = shortID(r.Digest)
		}
		if !r.Created.IsZero() {
			age = ageOf(time.Since(r.Created))
		}
		if r.Size > 0 {
			bytes = size(r.Size)
		}
		platforms := strings.Join(r.Platforms, ",")
		if platforms == "" {
			platforms = "-"
		}
		cells = append(cells, []string{r.Name, id, platforms, age, bytes})
	}
	return table(w, []string{"NAME", "DIGEST", "PLATFORMS", "AGE", "SIZE"}, cells)
}

// ageOf prints a time in its largest unit, as kubectl does.
func ageOf(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d < 2*365*day:
		return fmt.Sprintf("%dd", d/day)
	}
	return fmt.Sprintf("%dy", d/(365*day))
}
