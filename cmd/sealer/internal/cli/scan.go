package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
)

// discoveryFlags are the flags of discovery that build and scan share.
type discoveryFlags struct {
	values []string
	set    []string
}

func (d *discoveryFlags) add(fs *pflag.FlagSet, o *build.Options) {
	fs.StringArrayVar(&o.ImageLists, "image-list", nil, "`file` with more images, one reference a line")
	fs.StringArrayVar(&o.AuthLists, "image-list-with-auth", nil, "`file` like imageListWithAuth.yaml")
	fs.StringArrayVar(&o.IgnoredLists, "ignored-image-list", nil, "`file` with images not to mirror; * matches")
	fs.StringVar(&o.KubeVersion, "kube-version", "", "Kubernetes `version` that charts are rendered for (default the base's, else "+imagelist.DefaultKubeVersion+")")
	fs.StringArrayVar(&d.values, "values", nil, "`NAME=FILE` with values for the chart NAME; may be repeated")
	fs.StringArrayVar(&d.set, "set", nil, "`NAME.key=value` for the chart NAME, as in helm; may be repeated")
	fs.BoolVar(&o.ChartProbe, "chart-probe", false, "render charts also with the switches on that are off; what appears is optional")
	fs.BoolVar(&o.ScanLenient, "scan-lenient", false, "make warnings of the faults in charts and manifests")
	fs.BoolVar(&o.IncludeOptional, "include-optional", false, "mirror also what discovery only lists")
}

// complete puts the flags that need work into o.
func (d *discoveryFlags) complete(o *build.Options) error {
	o.ChartSet, o.ChartValues = d.set, map[string][]byte{}
	for _, v := range d.values {
		name, file, ok := strings.Cut(v, "=")
		if !ok || name == "" || file == "" {
			return usagef("--values %q: want NAME=FILE", v)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read values: %w", err)
		}
		o.ChartValues[name] = content
	}
	for _, v := range d.set {
		if key, _, ok := strings.Cut(v, "="); !ok || !strings.Contains(key, ".") {
			return usagef("--set %q: want NAME.key=value", v)
		}
	}
	return nil
}

// scanFlags are the flags of scan as they were given.
type scanFlags struct {
	options   build.Options
	discovery discoveryFlags
	registry  registryFlags
	output    output
	platform  string
	buildArgs []string
	why       string
	rejected  bool
}

func (a *app) scan() *cobra.Command {
	f := &scanFlags{}
	cmd := &cobra.Command{
		Use:   "scan [flags] PATH|IMAGE",
		Short: "Find the container images that a cluster will pull",
		Long: `Find the container images that a cluster will pull because of the files at PATH,
and say where each of them stands. PATH is

  a directory with a Kubefile:   what that Kubefile adds, as a build finds it
  a rootfs:                      charts/, manifests/, application/
  any other directory or file:   manifests and charts

or the name of a ClusterImage in the store, whose files are read.

What is certain, high or medium is mirrored by a build; low, optional and
announced are listed, and mirrored with --include-optional. What cannot be
known from the files is told on stderr, with the faults of the input.

The file .sealerimages beside the Kubefile, or at PATH, decides over all rules:

  include quay.io/app/worker:v1              an image that no file names
  ignore quay.io/app/* in charts/*           no image, or not wanted
  field Widget.example.com spec.parts[].run  a field that holds an image

` + exitCodesHelp,
		Example: `  sealer scan .
  sealer scan charts/my-chart.tgz --set my-chart.metrics.enabled=true
  sealer scan -o imageList . > imageList          # what a build would mirror
  sealer scan --why quay.io/app/worker:v1 .       # which file asks for it, by which rule
  sealer scan --rejected .                        # what looked like an image and is none`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runScan(cmd.Context(), f, args[0]) },
	}
	o, fs := &f.options, cmd.Flags()
	f.discovery.add(fs, o)
	fs.StringVar(&f.why, "why", "", "explain this `reference` alone")
	fs.BoolVar(&f.rejected, "rejected", false, "print what was considered and dropped, with the reason")
	fs.StringVar(&o.Scan, "scan", "auto", "discovery: auto, sealer (image lists, charts, manifests only) or off")
	fs.StringVarP(&o.Kubefile, "file", "f", "", "the Kubefile (default PATH/Kubefile)")
	fs.StringArrayVar(&f.buildArgs, "build-arg", nil, "`NAME=VALUE` of an ARG of the Kubefile")
	fs.StringVar(&f.platform, "platform", "", "the platform (default this machine's)")
	fs.StringVar(&o.Registry, "registry", "", "the private registry that the cluster pulls from")
	f.registry.add(fs)
	f.output.flags(cmd, "table", "imageList")
	return cmd
}

func (a *app) runScan(ctx context.Context, f *scanFlags, arg string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	var why ref.Reference
	if f.why != "" {
		var err error
		if why, err = ref.Parse(f.why); err != nil {
			return usageError{fmt.Errorf("--why: %w", err)}
		}
	}
	if err := f.complete(a); err != nil {
		return err
	}
	found, err := a.find(ctx, f, arg)
	if found == nil {
		return err
	}
	if perr := a.printScan(f, found, why); perr != nil {
		return errors.Join(perr, err)
	}
	if err != nil {
		return advise(err, "Correct the files, leave them out with .sealerimages or --ignored-image-list, or see the rest as it is with --scan-lenient")
	}
	return nil
}

func (f *scanFlags) complete(a *app) (err error) {
	o := &f.options
	if err := choice("--scan", o.Scan, []string{"auto", "sealer", "off"}); err != nil {
		return err
	}
	if o.Platforms, err = platform.ParseList(f.platform); err != nil {
		return usageError{err}
	}
	if len(o.Platforms) > 1 {
		return usagef("--platform %q: want one platform", f.platform)
	}
	if o.BuildArgs, err = pairs("--build-arg", f.buildArgs, true); err != nil {
		return err
	}
	o.Version, o.Logger = Version, a.logger()
	return f.discovery.complete(o)
}

// find scans what arg names.
func (a *app) find(ctx context.Context, f *scanFlags, arg string) (*imagelist.Result, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && (f.options.Kubefile != "" || info.IsDir() && hasKubefile(arg)):
		return a.findKubefile(ctx, f, arg)
	case err == nil:
		return build.FindIn(ctx, arg, f.options)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	var found *imagelist.Result
	err = a.withStore(func(s *store.Store) error {
		found, err = findImage(ctx, s, arg, f.options)
		if errors.Is(err, store.ErrNotFound) {
			return advise(fmt.Errorf("%s: neither a file nor an image in the store: %w", arg, err), "See what there is with: sealer images")
		}
		return err
	})
	return found, err
}

func hasKubefile(dir string) bool {
	_, err := os.Stat(dir + "/Kubefile")
	return err == nil
}

func (a *app) findKubefile(ctx context.Context, f *scanFlags, dir string) (found *imagelist.Result, err error) {
	c, err := a.client(&f.registry)
	if err != nil {
		return nil, err
	}
	o := f.options
	o.Context = dir
	err = a.withStore(func(s *store.Store) error {
		found, err = build.Find(ctx, s, c, o)
		return err
	})
	return found, err
}

// findImage scans the files of an image in the store, its base's too.
func findImage(ctx context.Context, s *store.Store, name string, o build.Options) (_ *imagelist.Result, err error) {
	p := &o.Platforms
	var im *store.Image
	if len(*p) > 0 {
		im, err = s.Image(ctx, name, &(*p)[0])
	} else {
		im, err = s.Image(ctx, name, nil)
	}
	if err != nil {
		return nil, err
	}
	var ids []digest.Digest
	for _, l := range im.Config.Layers {
		ids = append(ids, l.ID)
	}
	root, err := s.Rootfs(ids)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	lists, err := build.Lists(o)
	if err != nil {
		return nil, err
	}
	lists.PrivateRegistry = im.Config.Registry.Name
	return imagelist.Scan(ctx, root, lists)
}
