package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// discoveryFlags are the flags of discovery that build and scan share.
type discoveryFlags struct {
	values []string
	set    []string
	fetch  bool // the default of --fetch-charts
}

func (d *discoveryFlags) add(fs *pflag.FlagSet, o *build.Options) {
	fs.StringArrayVar(&o.ImageLists, "image-list", nil, "`file` with more images, one reference a line")
	fs.StringArrayVar(&o.AuthLists, "image-list-with-auth", nil, "`file` like imageListWithAuth.yaml")
	fs.StringArrayVar(&o.IgnoredLists, "ignored-image-list", nil, "`file` with images not to mirror; * matches")
	fs.StringVar(&o.KubeVersion, "kube-version", "", "Kubernetes `version` that charts are rendered for (default the base's, else "+imagelist.DefaultKubeVersion+")")
	fs.StringArrayVar(&d.values, "values", nil, "`NAME=FILE` with values for the chart NAME; may be repeated")
	fs.StringArrayVar(&d.set, "set", nil, "`NAME.key=value` for the chart NAME, as in helm; may be repeated")
	fs.BoolVar(&o.FetchCharts, "fetch-charts", d.fetch, "fetch charts: dependencies that are declared and not in charts/, and those that objects name")
	fs.BoolVar(&o.ChartProbe, "chart-probe", false, "render charts also with the switches on that are off; what appears is optional")
	fs.BoolVar(&o.ScanLenient, "scan-lenient", false, "make gaps of the faults in charts and manifests")
	fs.BoolVar(&o.AllowGaps, "allow-gaps", false, "go on where images cannot be known; the gaps are recorded")
	fs.BoolVar(&o.Strict, "strict", false, "take gaps that are only doubtful for open ones")
	fs.BoolVar(&o.IncludeOptional, "include-optional", false, "mirror also what discovery only lists")
}

// complete parses flags and puts the results into o.
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

// scanFlags are the flags of scan as given.
type scanFlags struct {
	options   build.Options
	discovery discoveryFlags
	registry  registryFlags
	output    output
	platform  string
	buildArgs []string
	why       string
	rejected  bool

	cluster    bool
	kubeconfig string
	context    string
	namespace  string
	compare    string
}

func (a *app) scan() *cobra.Command {
	f := &scanFlags{}
	cmd := &cobra.Command{
		Use:   "scan [flags] PATH|IMAGE|-|--cluster",
		Short: "Find the container images that a cluster will pull",
		Long: `Find the container images that a cluster will pull because of the files at PATH,
and say where each of them stands. PATH is

  a directory with a Kubefile:   what that Kubefile adds, as a build finds it
  a rootfs:                      charts/, manifests/, application/
  any other directory or file:   manifests and charts

or the name of a ClusterImage in the store, whose files are read, or - for objects
on standard input. With --cluster it is a running cluster: its pods and what makes
pods, with the digests that run, and as optional images the rest of its nodes.

What is certain, high or medium is mirrored by a build; low, optional and
announced are listed, and mirrored with --include-optional. What cannot be
known from the files is a gap, told on stderr with what closes it: an open one
(exit code 3) hides images for certain, a doubtful one perhaps.

The file .sealerimages beside the Kubefile, or at PATH, decides over all rules:

  include quay.io/app/worker:v1              an image that no file names
  ignore quay.io/app/* in charts/*           no image, or not wanted
  field Widget.example.com spec.parts[].run  a field that holds an image
  gap Cluster.postgresql.cnpg.io because its images are in imageList
                                             a gap that is known, and no harm
  allowedRegistries quay.io/app *.example.com
                                             an image from elsewhere is a fault

` + exitCodesHelp,
		Example: `  sealer scan .
  sealer scan charts/my-chart.tgz --set my-chart.metrics.enabled=true
  sealer scan -o imageList . > imageList          # what a build would mirror
  sealer scan --why quay.io/app/worker:v1 .       # which file asks for it, by which rule
  sealer scan --rejected .                        # what looked like an image and is none
  kustomize build . | sealer scan -               # objects that another program makes
  sealer scan --cluster -o imageList > imageList  # what runs, pinned
  sealer scan --cluster --compare my-app:v1       # what runs and is not inside`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runScan(cmd.Context(), f, args) },
	}
	f.add(cmd.Flags())
	f.output.flags(cmd, "table", "wide", "imageList")
	return cmd
}

func (f *scanFlags) add(fs *pflag.FlagSet) {
	o := &f.options
	f.discovery.add(fs, o)
	fs.StringVar(&f.why, "why", "", "explain this `reference` alone")
	fs.BoolVar(&f.rejected, "rejected", false, "print what was considered and dropped, with the reason")
	fs.StringVar(&o.Scan, "scan", "auto", "discovery: auto, sealer (image lists, charts, manifests only) or off")
	fs.StringVarP(&o.Kubefile, "file", "f", "", "the Kubefile (default PATH/Kubefile)")
	fs.StringArrayVar(&f.buildArgs, "build-arg", nil, "`NAME=VALUE` of an ARG of the Kubefile")
	fs.StringVar(&f.platform, "platform", "", "the platform (default this machine's)")
	fs.StringVar(&o.PrivateRegistry, "registry", "", "the private registry that the cluster pulls from")
	fs.BoolVar(&f.cluster, "cluster", false, "scan a running cluster")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`file` that says where the cluster is (default KUBECONFIG, else ~/.kube/config)")
	fs.StringVar(&f.context, "context", "", "the `context` of the kubeconfig files (default the current one)")
	fs.StringVarP(&f.namespace, "namespace", "n", "", "scan this `namespace` of the cluster only")
	fs.StringVar(&f.compare, "compare", "", "print the images that this ClusterImage has not inside, and exit with 3 if there are any")
	f.registry.add(fs)
}

func (a *app) runScan(ctx context.Context, f *scanFlags, args []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	switch {
	case f.cluster == (len(args) > 0):
		return usagef("want one PATH, IMAGE or -, or --cluster")
	case !f.cluster && (f.kubeconfig != "" || f.context != "" || f.namespace != ""):
		return usagef("--kubeconfig, --context and --namespace are for --cluster")
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
	found, err := a.find(ctx, f, strings.Join(args, ""))
	if found == nil {
		return err
	}
	if f.compare != "" {
		return errors.Join(err, a.printCompared(ctx, f, found))
	}
	if perr := a.printScan(f, found, why); perr != nil {
		return errors.Join(perr, err)
	}
	if err == nil && why == (ref.Reference{}) {
		err = openGaps(found, f.options.AllowGaps)
	}
	switch {
	case errors.Is(err, errIncomplete):
		return err
	case isNoChart(err):
		return noChart(err)
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

// find scans the context, file or image that arg names.
func (a *app) find(ctx context.Context, f *scanFlags, arg string) (*imagelist.Result, error) {
	switch {
	case f.cluster:
		return f.findRunning(ctx)
	case arg == "-":
		return a.findInput(ctx, f)
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && (f.options.Kubefile != "" || info.IsDir() && hasKubefile(arg)):
		return a.findKubefile(ctx, f, arg)
	case err == nil:
		return a.findFiles(ctx, f, arg)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	case isPath(arg):
		return nil, advise(fmt.Errorf("%s: no such file or directory", arg), "Give a build context, a directory or file of manifests or charts, or an image of the store")
	}
	var found *imagelist.Result
	err = a.withStore(func(s *store.Store) error {
		charts, err := a.charts(f, s)
		if err != nil {
			return err
		}
		found, err = findImage(ctx, s, arg, f.options, charts)
		if errors.Is(err, store.ErrNotFound) {
			return notFound(fmt.Errorf("%s: neither a file nor an image in the store: %w", arg, err))
		}
		return err
	})
	return found, err
}

// isPath reports whether arg can only mean a file: no image has such a name.
func isPath(arg string) bool {
	_, err := ref.Parse(arg)
	return err != nil || strings.HasPrefix(arg, ".") || filepath.IsAbs(arg)
}

func hasKubefile(dir string) bool {
	_, err := os.Stat(dir + "/Kubefile")
	return err == nil
}

// findFiles scans files that no Kubefile adds.
func (a *app) findFiles(ctx context.Context, f *scanFlags, path string) (found *imagelist.Result, err error) {
	if !f.options.FetchCharts {
		return build.FindIn(ctx, path, f.options, nil)
	}
	err = a.withStore(func(s *store.Store) error {
		charts, err := a.charts(f, s)
		if err != nil {
			return err
		}
		found, err = build.FindIn(ctx, path, f.options, charts)
		return err
	})
	return found, err
}

// charts is the source of charts from elsewhere, where the user allows it.
func (a *app) charts(f *scanFlags, s *store.Store) (imagelist.Charts, error) {
	if !f.options.FetchCharts {
		return nil, nil
	}
	c, err := a.client(&f.registry)
	if err != nil {
		return nil, err
	}
	return build.Charts(s, c, f.options), nil
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

// findImage scans the files of an image in the store, including its base's.
func findImage(ctx context.Context, s *store.Store, name string, o build.Options, charts imagelist.Charts) (*imagelist.Result, error) {
	var p *ocispec.Platform
	if len(o.Platforms) > 0 {
		p = &o.Platforms[0]
	}
	lists, err := build.Lists(o)
	if err != nil {
		return nil, err
	}
	lists.Charts = charts
	return transfer.Scan(ctx, s, name, p, lists)
}
