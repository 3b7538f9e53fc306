package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/redirect/kyverno"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

func (a *app) initKyverno() *cobra.Command {
	var f redirectFlags
	var engine, naming, from, manifest, version string
	var force bool
	cmd := &cobra.Command{
		Use:   "kyverno [DIR]",
		Short: "Write the build context of the Kyverno BaseImage",
		Long: `Write the build context of the Kyverno BaseImage: a ClusterImage that installs
Kyverno, and with it a policy that sends every pull to the private registry.

The images of Kyverno's install manifest, those in arguments and environment
too, are rewritten to the private registry, since Kyverno cannot redirect its
own pods; the originals go to imageList, which the build mirrors. With --engine
admissionpolicy Kubernetes does the work, and no Kyverno is installed.`,
		Example: `  sealer init kyverno my-base
  sealer init kyverno my-base --install-manifest install.yaml      # without network
  sealer build -t kubernetes-kyverno:v1.19.8 my-base`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.redirect(engine)
			if err != nil {
				return err
			}
			if d.Naming, err = tree.ParseNaming(naming); err != nil {
				return usageError{err}
			}
			if _, err := ref.Parse(from); err != nil {
				return usageError{fmt.Errorf("--from: %w", err)}
			}
			if version, err = kyverno.ParseVersion(version); err != nil {
				return usageError{err}
			}
			dir := directory(args)
			c := kyverno.Context{Redirect: d, From: from, Version: version}
			if d.Engine != redirect.AdmissionPolicy {
				if c.ManifestName, c.Manifest, err = a.installManifest(cmd.Context(), manifest, &c.Version); err != nil {
					return err
				}
				if c.Known, err = knownImages(filepath.Join(dir, "imageList")); err != nil {
					return err
				}
				c.Find = func(b []byte) ([]kyverno.Found, error) { return a.findImages(cmd.Context(), b, d.PrivateRegistry) }
			}
			files, err := c.Files()
			if err != nil {
				return err
			}
			return a.writeFiles(dir, files, force)
		},
	}
	fl := cmd.Flags()
	f.add(fl)
	fl.StringVar(&engine, "engine", "clusterpolicy", "clusterpolicy, mutatingpolicy (Kyverno 1.19) or admissionpolicy (Kubernetes' own, no Kyverno)")
	fl.StringVar(&naming, "registry-naming", "path", "names in the private registry: path, or full with the source registry as first segment")
	fl.StringVar(&from, "from", kyverno.DefaultFrom, "the base that starts the cluster")
	fl.StringVar(&manifest, "install-manifest", "", "Kyverno's install manifest, `FILE|URL` (default: that of --kyverno-version, fetched)")
	fl.StringVar(&version, "kyverno-version", "", "version of Kyverno (default "+kyverno.DefaultVersion+"); it also stands in for the tag latest in the manifest")
	fl.BoolVar(&force, "force", false, "write into a directory that is not empty")
	return cmd
}

// knownImages reads the imageList of an earlier run. A missing file has no
// images.
func knownImages(path string) ([]ref.Reference, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var known []ref.Reference
	for line := range strings.Lines(string(b)) {
		if r, err := ref.Parse(strings.TrimSpace(line)); err == nil {
			known = append(known, r)
		}
	}
	return known, nil
}

// findImages runs discovery over a manifest and returns the images that a build
// would mirror. It warns of other possible images.
func (a *app) findImages(ctx context.Context, manifest []byte, registry string) (_ []kyverno.Found, err error) {
	dir, err := os.MkdirTemp("", "sealer-init-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifests", "install.yaml"), manifest, 0o644); err != nil {
		return nil, err
	}
	res, err := imagelist.Scan(ctx, os.DirFS(dir), imagelist.Options{Mode: imagelist.ModeSealer, PrivateRegistry: registry, Logger: a.logger()})
	if err != nil {
		return nil, err
	}
	var found []kyverno.Found
	for _, f := range res.Found {
		if !f.Confidence.Mirrored() {
			printf(a.Err, "Warning: line %d of the install manifest: %s is left as it is: %s\n", f.Line, f.Written, cmp.Or(f.Reason, string(f.Confidence)+" confidence that it is an image"))
			continue
		}
		found = append(found, kyverno.Found{Reference: f.Reference, Written: f.Written, Line: f.Line})
	}
	return found, nil
}
