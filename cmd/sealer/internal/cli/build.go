package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// buildFlags are the flags of build as given.
type buildFlags struct {
	options   build.Options
	discovery discoveryFlags

	tags        []string
	mode        string
	platforms   string
	buildArgs   []string
	labels      []string
	annotations []string
	secrets     []string
	cacheFrom   []string
	cacheTo     []string
	base        bool
	naming      string
	quiet       bool
	check       bool
	maxDownload int64
	verify      keyFlag

	registry registryFlags
	output   output
}

// buildResult is the output of build -o json.
type buildResult struct {
	Digest   digest.Digest `json:"digest,omitempty"`
	Names    []string      `json:"names"`
	Warnings []string      `json:"warnings,omitempty"`
	Images   []builtImage  `json:"images"`
}

type builtImage struct {
	Platform string                `json:"platform"`
	Digest   digest.Digest         `json:"digest,omitempty"`
	Images   []image.MirroredImage `json:"images,omitempty"`
	Fetch    *transferCounts       `json:"fetch,omitempty"`
}

type transferCounts struct {
	Blobs       int   `json:"blobs"`
	Bytes       int64 `json:"bytes"`
	ReusedBytes int64 `json:"reusedBytes"`
}

func (a *app) build() *cobra.Command {
	f := &buildFlags{}
	cmd := &cobra.Command{
		Use:   "build [flags] [CONTEXT]",
		Short: "Build a ClusterImage from a Kubefile",
		Long: `Build a ClusterImage from the Kubefile and the files of a context directory
(default: the working directory). The container images that its manifests,
charts and image lists will pull are found, mirrored into a registry layer, and
checked for completeness; sealer scan shows them without building.

A build that was interrupted goes on, when it is run again, from what it had
fetched.

` + exitCodesHelp,
		Example: `  sealer build -t my-app:v1 .
  sealer build -t my-app:v1 --platform linux/amd64,linux/arm64 .
  sealer build --dry-run .                        # what would be fetched, with bytes
  sealer build -t my-app:v1 --build-arg VERSION=2 -f deploy/Kubefile .`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runBuild(cmd, f, args) },
	}
	f.add(cmd)
	a.limitFlags(cmd.Flags())
	return cmd
}

func (f *buildFlags) add(cmd *cobra.Command) {
	o, fs := &f.options, cmd.Flags()
	fs.StringArrayVarP(&f.tags, "tag", "t", nil, "`name` of the image; may be repeated (also --imageName)")
	fs.StringVarP(&o.Kubefile, "file", "f", "", "the Kubefile, - for standard input (default CONTEXT/Kubefile; also --kubefile)")
	fs.StringVarP(&f.mode, "mode", "m", "lite", "build mode; lite is the only one (also --build-mode)")
	fs.StringVar(&f.platforms, "platform", "", "platforms, separated by commas (default this machine's)")
	fs.StringArrayVar(&f.buildArgs, "build-arg", nil, "`NAME=VALUE` of an ARG; NAME alone takes it from the environment")
	fs.StringArrayVar(&f.labels, "label", nil, "`NAME=VALUE` added to the labels")
	fs.StringArrayVar(&f.annotations, "annotation", nil, "`NAME=VALUE` added to the manifest's annotations")
	fs.StringVar(&o.Type, "type", "", "kube-installer or app-installer (default: found)")
	fs.BoolVar(&f.base, "base", true, "have the layers of FROM in the image")
	fs.StringVar(&o.Pull, "pull", build.PullMissing, "take FROM from its registry: missing, always or never")
	f.verify.flag(fs, "build on the image of FROM")
	fs.BoolVar(&o.NoCache, "no-cache", false, "run and copy everything again")
	fs.StringArrayVar(&f.cacheFrom, "cache-from", nil, "`NAME` of a cache in a registry to read; may be repeated")
	fs.StringArrayVar(&f.cacheTo, "cache-to", nil, "`NAME` of a cache in a registry to write; may be repeated")

	fs.StringVar(&o.PrivateRegistry, "registry", "", "the private registry that the cluster pulls from (default the base's, else "+ref.DefaultPrivate+")")
	fs.StringVar(&f.naming, "registry-naming", "", "names there: path (library/nginx) or full (docker.io/library/nginx) (default the base's, else path)")
	fs.StringVar(&o.Scan, "scan", "auto", "discovery: auto, sealer (image lists, charts, manifests only) or off")
	f.discovery.fetch = true
	f.discovery.add(fs, o)
	fs.BoolVar(&o.AllPlatforms, "all-platforms", false, "mirror every platform of each image")
	fs.BoolVar(&o.NoReferrers, "no-referrers", false, "leave out the signatures, attestations and other artifacts that belong to the images")
	fs.BoolVar(&o.AllowMissing, "allow-missing", false, "build even if images cannot be mirrored")
	fs.BoolVar(&o.Offline, "offline", false, "ask no registry; build from what the store holds")
	fs.BoolVar(&o.Lock, "lock", false, "write imageList.lock: the digest of each image")
	fs.BoolVar(&o.Locked, "locked", false, "mirror exactly what imageList.lock says")
	fs.BoolVar(&f.check, "check", false, "report what is wrong with the Kubefile and the context, and stop")
	fs.BoolVar(&o.DryRun, "dry-run", false, "print what would be fetched, and stop")

	fs.Int64Var(&f.maxDownload, "max-download", 4<<10, "largest file that COPY takes from a URL, in `MiB`")
	fs.DurationVar(&o.DownloadTime, "download-time", time.Hour, "longest time for one URL or git repository of COPY")
	fs.StringArrayVar(&f.secrets, "secret", nil, "id=ID,src=FILE or id=ID,env=NAME for RUN --mount=type=secret")
	fs.StringVar(&o.RunNetwork, "run-network", "host", "network of RUN: host (what the machine reaches) or none")
	fs.StringVar(&o.Isolation, "isolation", build.IsolationHost, "what RUN sees beside the rootfs: host (the machine's programs, read-only) or chroot (nothing)")
	fs.StringVar(&o.Compression, "compression", "zstd", "of rootfs layers: zstd, gzip or none")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print only the image's digest")
	f.registry.add(fs)
	f.output.flags(cmd, "text")
	aliases := map[string]string{"imageName": "tag", "kubefile": "file", "build-mode": "mode"}
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if real, ok := aliases[name]; ok {
			name = real
		}
		return pflag.NormalizedName(name)
	})
}

// complete turns the flags into build.Options.
func (f *buildFlags) complete(a *app, args []string) (o build.Options, err error) {
	o = f.options
	if len(args) > 0 {
		o.Context = args[0]
	}
	if o.Kubefile == "-" {
		o.Kubefile, o.KubefileReader = "", a.In
	}
	if f.mode != "lite" {
		return o, usagef("--mode %q: lite is the only mode", f.mode)
	}
	if err := f.lists(&o); err != nil {
		return o, err
	}
	if o.Platforms, err = platform.ParseList(f.platforms); err != nil {
		return o, usageError{err}
	}
	if o.PrivateRegistry != "" {
		if err := ref.CheckHost(o.PrivateRegistry); err != nil {
			return o, usageError{fmt.Errorf("--registry %w", err)}
		}
	}
	if f.naming != "" {
		if o.Naming, err = tree.ParseNaming(f.naming); err != nil {
			return o, usageError{fmt.Errorf("--registry-naming: %w", err)}
		}
	}
	if f.maxDownload <= 0 || o.DownloadTime <= 0 {
		return o, usagef("--max-download and --download-time: want more than nothing")
	}
	o.MaxDownload = f.maxDownload << 20
	if o.VerifyKey, err = f.verify.key(); err != nil {
		return o, err
	}
	if o.SourceDateEpoch, err = sourceDateEpoch(); err != nil {
		return o, err
	}
	for _, c := range []struct{ flag, value, choices string }{
		{"--pull", o.Pull, "missing always never"},
		{"--type", o.Type, " kube-installer app-installer"},
		{"--scan", o.Scan, "auto sealer off"},
		{"--run-network", o.RunNetwork, "host none"},
		{"--isolation", o.Isolation, "host chroot"},
		{"--compression", o.Compression, "zstd gzip none"},
	} {
		if err := choice(c.flag, c.value, strings.Split(c.choices, " ")); err != nil {
			return o, err
		}
	}
	o.Base, o.Version, o.Jobs, o.Logger = &f.base, Version, f.registry.jobs, a.logger()
	return o, f.discovery.complete(&o)
}

// lists turns the repeatable flags into build.Options.
func (f *buildFlags) lists(o *build.Options) (err error) {
	for _, t := range f.tags {
		name, err := imageName(t)
		if err != nil {
			return err
		}
		o.Tags = append(o.Tags, name)
	}
	if o.BuildArgs, err = pairs("--build-arg", f.buildArgs, true); err != nil {
		return err
	}
	if o.Labels, err = pairs("--label", f.labels, false); err != nil {
		return err
	}
	if o.Annotations, err = pairs("--annotation", f.annotations, false); err != nil {
		return err
	}
	if o.CacheFrom, err = references("--cache-from", f.cacheFrom); err != nil {
		return err
	}
	if o.CacheTo, err = references("--cache-to", f.cacheTo); err != nil {
		return err
	}
	o.Secrets, err = secrets(f.secrets)
	return err
}

func (a *app) runBuild(cmd *cobra.Command, f *buildFlags, args []string) error {
	if err := f.output.check(); err != nil {
		return err
	}
	o, err := f.complete(a, args)
	if err != nil {
		return err
	}
	c, err := a.client(&f.registry)
	if err != nil {
		return err
	}
	p := a.newProgress(f.quiet)
	o.Progress = func(e build.Event) {
		switch {
		case e.Transfer != nil:
			p.transfer(*e.Transfer)
		case e.Warning != "":
			p.warning(e.Warning)
		default:
			p.step(e.Step + e.Line)
		}
	}
	return a.withStore(func(s *store.Store) error {
		if f.check {
			defer p.Close()
			warnings, err := build.Check(cmd.Context(), s, o)
			if err == nil {
				p.Close()
				printf(a.Out, "no fault in the Kubefile and its context, %s; sealer scan looks for images and gaps\n", counted(len(warnings), "warning", "warnings"))
			}
			return err
		}
		result, err := build.Build(cmd.Context(), s, c, o)
		p.Close()
		if err != nil {
			p.failed()
			return buildFailed(err)
		}
		return a.printBuild(f, o, result)
	})
}

// buildFailed adds the exit code and the advice to err.
func buildFailed(err error) error {
	switch {
	case errors.Is(err, build.ErrNotLocked):
		return advise(incompleteError{err}, "Write the lock file anew, for all platforms that are built, with: sealer build --lock")
	case errors.Is(err, build.ErrGaps):
		return advise(incompleteError{err}, "sealer scan CONTEXT tells what closes each; a gap line in .sealerimages declares one that is known, and --allow-gaps builds with them")
	case isNoChart(err):
		return noChart(err)
	case errors.Is(err, build.ErrIncomplete):
		return advise(incompleteError{err}, "Correct the references, or leave those images out with --ignored-image-list FILE; --allow-missing builds without them. sealer scan --why REF tells which file asks.")
	}
	return err
}

// pairs reads NAME=VALUE flags. With environ, NAME alone takes its value from the
// environment.
func pairs(flag string, list []string, environ bool) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok && environ {
			if value, ok = os.LookupEnv(name); !ok {
				continue
			}
		}
		if !ok || name == "" {
			return nil, usagef("%s %q: want NAME=VALUE", flag, s)
		}
		out[name] = value
	}
	return out, nil
}

func references(flag string, list []string) (out []ref.Reference, err error) {
	for _, s := range list {
		r, err := ref.Parse(s)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", flag, err)}
		}
		out = append(out, r)
	}
	return out, nil
}

// secrets reads --secret in docker's form.
func secrets(list []string) (map[string]build.Secret, error) {
	out := map[string]build.Secret{}
	for _, s := range list {
		var id string
		var secret build.Secret
		for field := range strings.SplitSeq(s, ",") {
			key, value, _ := strings.Cut(field, "=")
			switch key {
			case "id":
				id = value
			case "src", "source":
				secret.File = value
			case "env":
				secret.Env = value
			case "type":
			default:
				return nil, usagef("--secret: unknown field %q: want id=ID,src=FILE or id=ID,env=NAME", key)
			}
		}
		if id == "" {
			return nil, usagef("--secret: id is missing: want id=ID,src=FILE or id=ID,env=NAME")
		}
		if secret.File == "" && secret.Env == "" {
			secret.Env = id
		}
		out[id] = secret
	}
	return out, nil
}

// sourceDateEpoch reads SOURCE_DATE_EPOCH; see
// https://reproducible-builds.org/specs/source-date-epoch/.
func sourceDateEpoch() (*time.Time, error) {
	s := os.Getenv("SOURCE_DATE_EPOCH")
	if s == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q: want seconds since 1970", s)
	}
	t := time.Unix(n, 0).UTC()
	return &t, nil
}

// choice refuses a value that is not one of choices.
func choice(flag, value string, choices []string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return usagef("%s %q: want %s", flag, value, strings.Trim(strings.Join(choices, ", "), ", "))
}
