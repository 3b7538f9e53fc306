package cli

import (
	"fmt"
	"io"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
)

// printBuild prints the image that a build made, or the images that a dry run
// would fetch.
func (a *app) printBuild(f *buildFlags, o build.Options, r *build.Result) error {
	v := buildResult{Digest: r.Descriptor.Digest, Names: []string{}, Warnings: r.Warnings}
	for _, t := range o.Tags {
		v.Names = append(v.Names, t.Familiar())
	}
	for _, im := range r.Images {
		b := builtImage{Platform: platform.String(im.Platform), Digest: im.Descriptor.Digest, Images: im.Config.Images}
		if im.Mirror != nil && o.DryRun {
			b.Images = planned(im.Mirror)
		}
		if im.Mirror != nil {
			b.Fetch = &transferCounts{Blobs: im.Mirror.Fetched.Blobs, Bytes: im.Mirror.Fetched.Bytes, ReusedBytes: im.Mirror.Reused.Bytes}
		}
		v.Images = append(v.Images, b)
	}
	if f.quiet {
		if v.Digest != "" {
			printLine(a.Out, v.Digest)
		}
		return nil
	}
	return f.output.print(a.Out, v, func(w io.Writer) error {
		if o.DryRun {
			return printPlan(w, r)
		}
		for _, im := range r.Images {
			printf(w, "%s: %s%s\n", platform.String(im.Platform), counted(inside(im.Config.Images), "container image", "container images"), fetched(im.Mirror))
		}
		for _, n := range v.Names {
			printf(w, "built %s\n", n)
		}
		_, err := printLine(w, v.Digest)
		if len(v.Names) == 0 && v.Digest != "" {
			printf(a.Err, "The image has no name: give it one with -t, or with: sealer tag %s NAME\n", v.Digest)
		}
		return err
	})
}

// planned returns the images that a build would mirror.
func planned(m *mirror.Result) []image.MirroredImage {
	var out []image.MirroredImage
	for _, im := range m.Images {
		out = append(out, image.MirroredImage{Reference: image.Name{Reference: im.Reference}, Digest: im.Descriptor.Digest, Size: im.Size})
	}
	return out
}

// fetched describes in words the blobs that a mirror run copied and reused.
func fetched(m *mirror.Result) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf(", %s fetched, %s reused", size(m.Fetched.Bytes), size(m.Reused.Bytes))
}

func printPlan(w io.Writer, r *build.Result) error {
	for _, im := range r.Images {
		printf(w, "%s:\n", platform.String(im.Platform))
		if im.Mirror == nil {
			printLine(w, "  nothing to mirror")
			continue
		}
		var rows [][]string
		for _, m := range im.Mirror.Images {
			rows = append(rows, []string{m.Reference.String(), size(m.Size), m.Descriptor.Digest.String()})
		}
		if err := table(w, []string{"IMAGE", "SIZE", "DIGEST"}, rows); err != nil {
			return err
		}
		printf(w, "to fetch: %d blobs, %s; here already: %d blobs, %s\n",
			im.Mirror.Fetched.Blobs, size(im.Mirror.Fetched.Bytes), im.Mirror.Reused.Blobs, size(im.Mirror.Reused.Bytes))
	}
	return nil
}

// inside counts the images whose content is in the ClusterImage, not only listed.
func inside(images []image.MirroredImage) int {
	n := 0
	for _, im := range images {
		if im.Missing == "" {
			n++
		}
	}
	return n
}
