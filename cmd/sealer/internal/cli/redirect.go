package cli

import (
	"cmp"
	"context"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
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
			if dir != "" && d.Engine != redirect.Containerd {
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
			return a.printPolicy(files, d.Engine == redirect.Containerd)
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

// printPolicy prints files to one stream, with their paths where there are several.
func (a *app) printPolicy(files []redirect.File, paths bool) error {
	for _, file := range files {
		if paths {
			printf(a.Out, "# %s\n", file.Path)
		}
		if _, err := a.Out.Write(file.Content); err != nil {
			return err
		}
	}
	return nil
}

// hold limits d to the images in a ClusterImage, under the names that its
// registry layers serve.
func hold(ctx context.Context, s *store.Store, name string, p *ocispec.Platform, d *redirect.Redirect) error {
	held, err := transfer.Held(ctx, s, name, p)
	if err != nil {
		return err
	}
	d.Exact = true
	d.Naming = held.Naming
	d.PrivateRegistry = cmp.Or(d.PrivateRegistry, held.Name)
	d.OwnNames = []string{cmp.Or(held.Name, ref.DefaultPrivate)}
	for _, im := range held.Images {
		d.Images = append(d.Images, redirect.Image(im))
	}
	return nil
}
