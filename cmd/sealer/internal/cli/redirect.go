package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/build/kyverno"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

func (a *app) redirect() *cobra.Command {
	var f redirectFlags
	var only platformFlag
	var engine, dir string
	var denyOthers, plainHTTP bool
	cmd := &cobra.Command{
		Use:   "redirect IMAGE",
		Short: "Print what sends a cluster's pulls to the images of a ClusterImage",
		Long: `Print what makes a cluster pull from the private registry the images that are
inside a ClusterImage, and no others: pods go on naming them by their public
references.

  clusterpolicy    for Kyverno 1.6 and later
  mutatingpolicy   for Kyverno 1.19 and later
  admissionpolicy  for Kubernetes itself (MutatingAdmissionPolicy)
  containerd       hosts.toml files for /etc/containerd/certs.d on each node

With --deny-others all other images are refused instead of left alone.`,
		Example: `  sealer redirect my-app:v1 | kubectl apply --server-side -f -
  sealer redirect my-app:v1 -o admissionpolicy --admission-version v1beta1
  sealer redirect my-app:v1 -o containerd --dir /etc/containerd`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.redirect(engine)
			if err != nil {
				return err
			}
			if dir != "" && d.Engine != kyverno.Containerd {
				return usagef("--dir is for -o containerd; redirect the output to a file")
			}
			d.DenyOthers, d.PlainHTTP = denyOthers, plainHTTP
			err = a.withStore(func(s *store.Store) error { return hold(cmd.Context(), s, args[0], only.Platform, &d) })
			if err != nil {
				return notFound(err)
			}
			files, err := d.Policy()
			if err != nil {
				return fmt.Errorf("redirect to %s: %w", args[0], err)
			}
			if dir != "" {
				return a.writeFiles(dir, files, true)
			}
			for _, file := range files {
				if d.Engine == kyverno.Containerd { // one stream, several files
					fmt.Fprintf(a.Out, "# %s\n", file.Path)
				}
				if _, err := a.Out.Write(file.Content); err != nil {
					return err
				}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	f.add(fl)
	fl.StringVarP(&engine, "output", "o", "clusterpolicy", "clusterpolicy, mutatingpolicy, admissionpolicy or containerd")
	fl.BoolVar(&denyOthers, "deny-others", false, "refuse every other image")
	fl.BoolVar(&plainHTTP, "plain-http", false, "containerd speaks http to the private registry")
	fl.StringVar(&dir, "dir", "", "write containerd's files into this directory instead of printing them")
	fl.Var(&only, "platform", "the images for this platform only (default: all that the ClusterImage has)")
	return cmd
}

// hold limits d to the images that a ClusterImage holds, under the names that
// its registry layers serve them.
func hold(ctx context.Context, s *store.Store, name string, p *ocispec.Platform, d *kyverno.Redirect) error {
	im, err := s.Image(ctx, name, p)
	if err != nil {
		return err
	}
	platforms := []ocispec.Platform{im.Config.Platform}
	if p == nil && len(im.Platforms) > 0 {
		platforms = im.Platforms
	}
	d.Exact = true
	d.Naming = im.Config.Registry.Naming
	d.Registry = cmp.Or(d.Registry, im.Config.Registry.Name)
	for _, p := range platforms {
		if im, err = s.Image(ctx, name, &p); err != nil {
			return err
		}
		images, err := held(im)
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		d.Images = append(d.Images, images...)
	}
	return nil
}

// held returns the mirrored images of im, each with the digests that its
// repository serves.
func held(im *store.Image) ([]kyverno.Image, error) {
	revisions := map[string][]digest.Digest{}
	for _, doc := range im.Documents {
		for _, r := range doc.Repositories {
			for _, v := range r.Revisions {
				revisions[r.Name] = append(revisions[r.Name], v.Digest)
			}
		}
	}
	private := cmp.Or(im.Config.Registry.Name, tree.DefaultRegistry)
	var out []kyverno.Image
	for _, m := range im.Config.Images {
		r, err := ref.Parse(m.Reference)
		if err != nil {
			return nil, err
		}
		served := revisions[im.Config.Registry.Naming.Target(private, r).Repository]
		if m.Missing == "" && slices.Contains(served, m.Digest) {
			out = append(out, kyverno.Image{Reference: r, Digests: served})
		}
	}
	return out, nil
}
