package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/report"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// reportFlags are the flags of report.
type reportFlags struct {
	file    string
	cluster string
	only    platformFlag
}

func (a *app) reports() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report IMAGE [NEWER] -o FILE",
		Short: "Write an HTML page about an image, an upgrade or a cluster",
		Long: `Write one HTML file for the people who approve an image and keep the record. It
needs no network and no further file, and forbids the browser to ask for any.

Of an image: what is missing and which gaps are open, first; where the bytes are,
by source registry and with what images share; each container image with the files
and lines that ask for it; software and licences, where the images' SBOMs say them;
signatures, start commands, layers, platforms. Of two images also what the upgrade
changes and moves. With --cluster, of a cluster that this machine has made: the
plan as executed and the proof; its image, too, where the store has it.

The content of the image is checked for completeness, as when it was built; its
bytes are not read: sealer verify does that. An incomplete image has a report, too,
and the exit code is 0: the line that is printed says what the page says first.`,
		Example: `  sealer report my-app:v1 -o report.html
  sealer report my-app:v1 my-app:v2 -o upgrade.html
  sealer report --cluster my-cluster -o cluster.html`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.cluster == "" && (len(args) == 0 || len(args) > 2):
				return usagef("report takes an image, or the older and the newer one, or --cluster NAME; it is used as: sealer report IMAGE [NEWER] -o FILE")
			case f.cluster != "" && len(args) > 0:
				return usagef("report --cluster takes no image: it knows the cluster's")
			}
			return nil
		},
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (f.file == "" || f.file == "-") && a.outIsTerminal() {
				return usagef("will not write a page to the terminal: use -o FILE or a pipe")
			}
			return a.withStore(func(s *store.Store) error { return a.writeReport(cmd.Context(), s, &f, args) })
		},
	}
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "the `file` to write (default: standard output)")
	cmd.Flags().StringVar(&f.cluster, "cluster", "", "report on the last run of this cluster")
	cmd.Flags().Var(&f.only, "platform", "only this platform (default: all that the store has)")
	return cmd
}

func (a *app) writeReport(ctx context.Context, s *store.Store, f *reportFlags, args []string) error {
	made, err := reportTime()
	if err != nil {
		return err
	}
	r := &report.Report{Made: made, Version: Version}
	if f.cluster != "" {
		err = a.reportCluster(ctx, s, f, r)
	} else {
		err = reportImages(ctx, s, f, r, args)
	}
	if err != nil {
		return err
	}
	if f.file == "" || f.file == "-" {
		return report.Write(a.Out, r)
	}
	var n counter
	err = archive.WriteFile(f.file, 0o644, func(w io.Writer) error { return report.Write(io.MultiWriter(w, &n), r) })
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	printf(a.Out, "%s: %s; %s\n", f.file, size(int64(n)), r.Verdict())
	return nil
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) { *c += counter(len(b)); return len(b), nil }

// reportTime is now or, so that two reports can be equal, SOURCE_DATE_EPOCH.
func reportTime() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Now(), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, usagef("SOURCE_DATE_EPOCH %q: want seconds since 1970", text)
	}
	return time.Unix(n, 0), nil
}

// reportImages fills r for one image, or for an upgrade.
func reportImages(ctx context.Context, s *store.Store, f *reportFlags, r *report.Report, args []string) error {
	newest := args[len(args)-1]
	var err error
	if r.Image, err = imageReport(ctx, s, newest, f.only.Platform); err != nil {
		return notFound(err)
	}
	r.Title = r.Image.Name
	if len(args) == 1 {
		return nil
	}
	old, err := s.Image(ctx, args[0], f.only.Platform)
	if err != nil {
		return notFound(err)
	}
	d, err := s.Diff(ctx, args[0], newest, f.only.Platform)
	if err != nil {
		return notFound(err)
	}
	name := shownName(args[0], old)
	r.Title = name + " to " + r.Image.Name
	r.Change = &report.Change{
		From: name, To: r.Image.Name, FromDigest: old.Descriptor.Digest, Blobs: d.Carry.Blobs, Size: d.Carry.Bytes, Whole: r.Image.Size,
		Images: differences(d.Images), Commands: differences(d.Commands), Files: differences(d.Files),
	}
	return nil
}

func differences(list []store.Change) []report.Difference {
	var out []report.Difference
	for _, c := range list {
		out = append(out, report.Difference{Kind: c.Kind, Name: c.Name, From: c.From, To: c.To, Size: c.Bytes})
	}
	return out
}

// imageReport describes the image name for all its platforms, or for p.
func imageReport(ctx context.Context, s *store.Store, name string, p *ocispec.Platform) (*report.Image, error) {
	images, err := transfer.Images(ctx, s, name, p)
	if err != nil {
		return nil, err
	}
	var parts []report.Part
	for _, im := range images {
		c := &im.Config
		part := report.Part{Platform: im.Platform(), Manifest: im.ManifestDescriptor, Config: c, Layers: im.Layers, Documents: im.Documents, Size: im.Size}
		lacking, err := transfer.Lacking(ctx, s, im.LayerIDs(), c.References(), registry.VerifyOptions{
			Naming: c.PrivateRegistry.Naming, PrivateRegistry: c.PrivateRegistry.Name, Platforms: []ocispec.Platform{im.Platform()},
		})
		if err != nil {
			return nil, err
		}
		for _, m := range lacking {
			part.Missing = append(part.Missing, report.Missing{Reference: m.Reference.String(), Why: m.Err.Error()})
		}
		parts = append(parts, part)
	}
	return report.OfImage(ctx, shownName(name, images[0]), images[0].Descriptor.Digest, parts, s)
}

// reportCluster fills r for a cluster that this machine has made.
func (a *app) reportCluster(ctx context.Context, s *store.Store, f *reportFlags, r *report.Report) error {
	h, err := cluster.Remembered(a.clusterState(), f.cluster)
	if errors.Is(err, fs.ErrNotExist) {
		known, kerr := cluster.Clusters(a.clusterState())
		return advise(errors.Join(fmt.Errorf("this machine has made no cluster %s", f.cluster), kerr), fmt.Sprintf("Clusters that it has made: %q", known))
	}
	if err != nil {
		return err
	}
	r.Title = "Cluster " + f.cluster
	r.Cluster = report.OfCluster(f.cluster, h.Images, h.Plan, h.Journals, h.Proof)
	r.Image, err = imageReport(ctx, s, cmp.Or(h.File.Cluster.Image, "none"), f.only.Platform)
	if errors.Is(err, store.ErrNotFound) {
		r.Image = nil
		r.Cluster.Absent = append(r.Cluster.Absent, "the store does not have the image "+h.File.Cluster.Image+" any more")
		return nil
	}
	return err
}
