package build

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
)

// lists reads the files beside the rootfs that steer discovery.
func (b *builder) lists() (o imagelist.Options, err error) {
	var errs []error
	o, err = Lists(b.o)
	errs = append(errs, err)
	if b.ctx.secret != nil && b.o.Scan != imagelist.ModeOff {
		content, err := b.ctx.readSmall(authListName)
		errs = append(errs, err)
		o.AuthLists = append(o.AuthLists, imagelist.List{Name: authListName, Content: content})
	}
	switch rules, err := b.ctx.readSmall(rulesName); {
	case err == nil:
		o.Rules = rules
	case !errors.Is(err, fs.ErrNotExist):
		errs = append(errs, err)
	}
	return o, errors.Join(errs...)
}

// discover finds the images that the layers of this Kubefile make a cluster
// pull.
func (pb *platformBuild) discover(ctx context.Context, o imagelist.Options) (*imagelist.Result, error) {
	pb.b.step(fmt.Sprintf("[%s] find images", platform.String(pb.platform)))
	o.PrivateRegistry = pb.config.PrivateRegistry.Name
	o.KubeRange = pb.config.Labels[labelKubeVersion]
	o.Base, o.Commands, o.Variables, o.Kubeadm = pb.baseGaps(), pb.startCommands(), pb.variables(), pb.kubeadm
	o.ControlPlane = slices.ContainsFunc(pb.config.Images, func(im image.MirroredImage) bool {
		return path.Base(im.Reference.Repository) == "kube-apiserver"
	})
	if err := pb.kubeVersion(&o); err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	found, warnings, err := pb.scan(ctx, o)
	for _, w := range warnings {
		pb.b.warn(w)
	}
	if found != nil {
		for _, w := range found.Warnings {
			pb.b.warn(w)
		}
		for _, g := range found.Gaps {
			if g.Declared == "" && (!g.Blocks() || pb.b.o.AllowGaps) {
				pb.b.warn(fmt.Sprintf("%s (%s gap)", g, g.Grade))
			}
		}
		if err == nil {
			err = pb.addToCharts(ctx, found.Additions)
		}
	}
	return found, err
}

// openGaps is an error with a line for each gap that keeps the image from being
// complete, unless the options allow them.
func (b *builder) openGaps(found *imagelist.Result) error {
	var errs []error
	for _, g := range found.Gaps {
		if g.Blocks() && !b.o.AllowGaps {
			errs = append(errs, gapError{errors.New(g.String())})
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return incomplete(joinFaults(errs...))
}

// baseGaps are the gaps of FROM, which the rules of this build may declare.
func (pb *platformBuild) baseGaps() (out []imagelist.Gap) {
	for _, g := range pb.config.Gaps {
		out = append(out, imagelist.Gap{Grade: imagelist.Grade(g.Grade), Rule: g.Rule, Subject: g.Subject, File: g.File, Line: g.Line,
			Object: g.Object, Field: g.Field, Text: g.Text, Reason: g.Reason, Remedy: g.Remedy, Declared: g.Declared, More: g.More})
	}
	return out
}

// recordGaps writes the gaps, FROM's included, into the config.
func (pb *platformBuild) recordGaps(found *imagelist.Result) {
	pb.config.Gaps = nil
	for _, g := range found.Gaps {
		pb.config.Gaps = append(pb.config.Gaps, image.Gap{Grade: string(g.Grade), Rule: g.Rule, Subject: g.Subject, File: g.File, Line: g.Line,
			Object: g.Object, Field: g.Field, Text: g.Text, Reason: g.Reason, Remedy: g.Remedy, Declared: g.Declared, More: g.More})
	}
}

// kubeVersion takes the version that charts are rendered for from the Metadata
// of the whole rootfs, the base's too, unless the user names one.
func (pb *platformBuild) kubeVersion(o *imagelist.Options) error {
	if o.KubeVersion != "" {
		return nil
	}
	root, err := pb.b.s.Rootfs(pb.ids())
	if err != nil {
		return err
	}
	o.KubeVersion = imagelist.MetadataVersion(root)
	return root.Close()
}

// startCommands are the commands of this Kubefile, and of its applications,
// that may install charts.
func (pb *platformBuild) startCommands() (out []imagelist.Command) {
	file := cmp.Or(pb.b.o.Kubefile, kubefile.DefaultName)
	env := map[string]string{} // as a run gives them to commands
	for _, m := range []map[string]string{pb.config.Env, pb.config.Args.Parent, pb.config.Args.Current} {
		maps.Copy(env, m)
	}
	add := func(line int, commands []string, app *image.Application) {
		c := imagelist.Command{File: file, Line: line, Env: env}
		if app != nil {
			c.Dir, c.Env = image.AppDir(app.Name), maps.Clone(env)
			maps.Copy(c.Env, app.Env)
		}
		for _, c.Text = range commands {
			out = append(out, c)
		}
	}
	written := map[string]bool{}
	for _, in := range pb.file.Instructions {
		switch in := in.(type) {
		case *kubefile.Cmd:
			add(in.Line(), in.Commands, nil)
		case *kubefile.Cmds:
			add(in.Line(), in.Commands, nil)
		case *kubefile.AppCmds:
			if app := pb.app(in.Name); pb.appCmds(in.Name) == in && app != nil {
				add(in.Line(), in.Commands, app)
			}
			written[in.Name] = true
		}
	}
	for _, in := range pb.file.Instructions {
		if app, ok := in.(*kubefile.App); ok && !written[app.Name] {
			add(in.Line(), pb.app(app.Name).Cmds, pb.app(app.Name))
		}
	}
	return out
}

// variables are those that ENV and APPENV of this Kubefile give to commands and
// programs, with the values of the build.
func (pb *platformBuild) variables() (out []imagelist.Variable) {
	file := cmp.Or(pb.b.o.Kubefile, kubefile.DefaultName)
	for _, in := range pb.file.Instructions {
		switch in := in.(type) {
		case *kubefile.Env:
			for _, p := range in.Pairs {
				out = append(out, imagelist.Variable{File: file, Line: in.Line(), Object: "ENV", Name: p.Name, Value: p.Value})
			}
		case *kubefile.AppEnv:
			for _, p := range in.Pairs {
				out = append(out, imagelist.Variable{File: file, Line: in.Line(), Object: "APPENV " + in.Name, Name: p.Name, Value: p.Value})
			}
		}
	}
	return out
}

// A scanRecord is a cached scan.
type scanRecord struct {
	Found    *imagelist.Result
	Asked    []chartAnswer
	Warnings []string // of the review
}

// scan reads the layers, or returns the cached scan of equal layers. The cache
// holds no credentials.
func (pb *platformBuild) scan(ctx context.Context, o imagelist.Options) (found *imagelist.Result, warnings []string, err error) {
	b := pb.b
	// The lists with credentials are read in every build: the cache and its keys
	// hold no password. A fault in a list is reported by the scan.
	listed, listErr := imagelist.ReadAuthLists(o.AuthLists)
	plain := o
	plain.Logger, plain.AuthLists = nil, nil
	// The base counts too: a command may install its chart, kubeadm may be its.
	file := b.cacheFile("scans", cacheKey("scan", b.program(), pb.added, pb.ids(), plain, listed, b.o.FetchCharts))
	if listErr == nil && !b.o.NoCache {
		var r scanRecord
		if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &r) == nil && r.Found != nil && b.stillTrue(ctx, r.Asked) {
			authorise(r.Found, listed)
			return r.Found, r.Warnings, nil
		}
	}
	root, err := b.s.Rootfs(pb.added)
	if err != nil {
		return nil, nil, fmt.Errorf("find images: %w", err)
	}
	defer root.Close()
	facts, err := b.facts(ctx, pb.added)
	if err != nil {
		return nil, nil, fmt.Errorf("find images: %w", err)
	}
	if warnings, err = review(root, facts.Suspects); err != nil {
		return nil, nil, err
	}
	o.Objects = map[string]bool{}
	for _, name := range facts.Objects {
		o.Objects[name] = true
	}
	if len(o.Commands) > 0 {
		whole, err := b.s.Rootfs(pb.ids())
		if err != nil {
			return nil, nil, fmt.Errorf("find images: %w", err)
		}
		defer whole.Close()
		o.Rootfs = whole
	}
	var asked []chartAnswer
	o.Charts = b.charts(&asked)
	found, err = imagelist.Scan(ctx, root, o)
	if err == nil {
		b.keepJSON(file, scanRecord{found, asked, warnings})
	}
	return found, warnings, err
}

// authorise gives the findings that the lists with credentials made their
// credentials again.
func authorise(found *imagelist.Result, listed []imagelist.Finding) {
	type place struct {
		reference ref.Reference
		file      string
		line      int
	}
	of := map[place]*imagelist.Credential{}
	for _, f := range listed {
		of[place{f.Reference, f.File, f.Line}] = f.Credential
	}
	for i := range found.Found {
		f := &found.Found[i]
		f.Credential = of[place{f.Reference, f.File, f.Line}]
	}
}

// program tells one build of sealer from another, since another may find more.
func (b *builder) program() string {
	name, err := os.Executable()
	if err != nil {
		return b.o.Version
	}
	fi, err := os.Stat(name)
	if err != nil {
		return b.o.Version
	}
	return fmt.Sprintf("%s %d %d", b.o.Version, fi.Size(), fi.ModTime().UnixNano())
}

// requests turns found images into mirror requests. Names in the private
// registry come last: other requests satisfy them.
func (b *builder) requests(found *imagelist.Result) []mirror.Request {
	var out []mirror.Request
	for _, list := range [][]imagelist.Image{found.Mirror(b.o.IncludeOptional), found.Requirements()} {
		for _, im := range list {
			q := mirror.Request{Reference: im.Reference, Source: im.Source, Asked: asked(im.Findings)}
			if c := im.Credential; c != nil {
				q.Credential = &remote.Credential{Registry: c.Registry, Username: c.Username, Password: c.Password}
			}
			out = append(out, q)
		}
	}
	return out
}

// asked returns the places that ask for an image, each once.
func asked(list []imagelist.Finding) []string {
	var out []string
	for _, f := range list {
		at := f.File
		if f.Line > 0 {
			at = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

// record writes the outcome for every found image into the config. The base's
// records stay, unless this build mirrored the image again.
func (pb *platformBuild) record(found *imagelist.Result, result *mirror.Result) {
	byRef := map[image.Name]image.MirroredImage{}
	for _, im := range pb.config.Images {
		byRef[im.Reference] = im
	}
	mirrored := map[ref.Reference]*mirror.Image{}
	if result != nil {
		for i := range result.Images {
			mirrored[result.Images[i].Reference] = &result.Images[i]
		}
	}
	pb.recordGaps(found)
	for _, im := range found.Images() {
		entry := image.MirroredImage{Reference: image.Name{Reference: im.Reference}, Found: provenance(im.Findings)}
		if im.Source != im.Reference {
			entry.Source.Reference = im.Source
		}
		m := mirrored[im.Reference]
		switch {
		case m == nil:
			entry.Missing = image.NotMirrored + string(im.Confidence)
		case m.Err != nil:
			entry.Missing = m.Err.Error()
		default:
			entry.Digest, entry.Size = m.Descriptor.Digest, m.Size
			for _, p := range m.Platforms {
				entry.Platforms = append(entry.Platforms, platform.String(p))
			}
		}
		if old, ok := byRef[entry.Reference]; ok && old.Missing == "" && entry.Missing != "" {
			continue // the base has it
		}
		byRef[entry.Reference] = entry
	}
	pb.config.Images = nil
	byName := func(a, b image.Name) int { return cmp.Compare(a.String(), b.String()) }
	for _, name := range slices.SortedFunc(maps.Keys(byRef), byName) {
		pb.config.Images = append(pb.config.Images, byRef[name])
	}
}

func provenance(list []imagelist.Finding) []image.Provenance {
	var out []image.Provenance
	for _, f := range list {
		p := image.Provenance{File: f.File, Line: f.Line, Object: f.Object, Field: f.Field, Values: f.Values, Rule: f.Rule, Confidence: string(f.Confidence)}
		if f.Written != f.Reference.String() {
			p.Written = f.Written
		}
		out = append(out, p)
	}
	return out
}
