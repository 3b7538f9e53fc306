package build

import (
	"archive/tar"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/chart"
)

const (
	labelKubeVersion = "app.alpha.sealer.io/supported-kube-version"
	labelPlugin      = "cluster.alpha.sealer.io/kube-%s-%s" // cni or csi, and its name

	// The types of applications, as sealer 0.9 records them.
	appHelm  = "helm"
	appKube  = "kube"
	appShell = "shell"
)

// An appStep is APP, CNI or CSI.
type appStep struct {
	in      *kubefile.App
	entries []entry
}

func (st *appStep) title() string { return redacted(st.in.Keyword() + " " + st.in.Text()) }

// planApp finds the sources of an application, and from them its type. Files,
// and the contents of directories, go to application/apps/NAME.
func (pb *platformBuild) planApp(ctx context.Context, in *kubefile.App) (step, error) {
	st := &appStep{in: in}
	var inputs []input
	var errs []error
	b, version := pb.b, "" // of a chart from elsewhere
	missing := false       // a source is not looked at by a build that fails anyway
	for _, src := range in.Sources {
		var found []input
		var err error
		if local, ok := strings.CutPrefix(src, "local://"); ok {
			found, err = b.local(local)
		} else {
			found, err = b.fetch(ctx, src, &kubefile.Copy{At: in.At})
		}
		if err != nil {
			errs = append(errs, pb.fault(in, fmt.Sprintf("%s: %v", redacted(src), err), fixFor(err), err))
		}
		if s, err := chart.Parse(src); err == nil && b.brought[s] != nil {
			version = b.brought[s].Pin.Version
		}
		missing = missing || len(found) == 0
		inputs = append(inputs, found...)
	}
	if in.Kind != "APP" {
		pb.config.Labels[fmt.Sprintf(labelPlugin, strings.ToLower(in.Kind), in.Name)] = "true"
	}
	// An application of the base with this name is replaced, files and all.
	replaced := pb.app(in.Name) != nil
	pb.config.Applications = slices.DeleteFunc(pb.config.Applications, func(a image.Application) bool { return a.Name == in.Name })
	pb.config.Applications = append(pb.config.Applications, image.Application{Name: in.Name, Version: version})
	dir := image.AppDir(in.Name)
	err := st.walk(pb, inputs, dir)
	if err != nil {
		errs = append(errs, pb.faults(in, err))
	} else if !missing {
		errs = append(errs, st.recognise(pb, pb.app(in.Name), st.entries, dir))
	}
	if replaced {
		st.entries, err = arrange(append(st.entries, entry{name: dir, typ: tar.TypeDir, mode: 0o755}, entry{name: path.Join(dir, layer.OpaqueName), typ: tar.TypeReg, mode: 0o644}))
		errs = append(errs, err)
	}
	return st, joinFaults(errs...)
}

// walk collects the entries of the layer.
func (st *appStep) walk(pb *platformBuild, inputs []input, dir string) error {
	var all []entry
	var errs []error
	for _, in := range inputs {
		w := &walker{chmod: -1, warn: func(msg string) { pb.warn(st.in, msg) }}
		if !in.remote {
			w.ctx = pb.b.ctx
		}
		to := dir
		if !in.Dir {
			to = path.Join(dir, path.Base(in.Name))
		}
		w.add(in.root, in.path, in.info, to, in.Dir)
		all, errs = append(all, w.entries...), append(errs, w.errs...)
	}
	err := joinFaults(errs...)
	if err == nil {
		st.entries, err = arrange(all)
	}
	return err
}

// run writes the application's files.
func (st *appStep) run(ctx context.Context, pb *platformBuild) error {
	return pb.begin(ctx, st.in, image.ConfigLayer{Type: "COPY", Value: st.title()}, func() (image.Layer, error) {
		return pb.writeLayer(ctx, st.in, st.entries)
	})
}

// app returns the application in the config, or nil.
func (pb *platformBuild) app(name string) *image.Application {
	for i := range pb.config.Applications {
		if pb.config.Applications[i].Name == name {
			return &pb.config.Applications[i]
		}
	}
	return nil
}

// recognise finds the application's type by its files, and the commands that
// start one of this type.
func (st *appStep) recognise(pb *platformBuild, app *image.Application, files []entry, dir string) error {
	var charts, manifests, scripts []string
	for _, e := range files {
		if e.typ == tar.TypeDir {
			continue
		}
		rel := strings.TrimPrefix(e.name, dir+"/")
		app.Files = append(app.Files, e.name)
		switch ext := path.Ext(rel); {
		case path.Base(rel) == "Chart.yaml" && strings.Count(rel, "/") <= 1:
			charts = append(charts, path.Dir(e.name))
			if app.Version == "" {
				app.Version = chartVersion(&e)
			}
		case ext == ".tgz" && !strings.Contains(rel, "/"):
			charts = append(charts, e.name)
		case ext == ".sh":
			scripts = append(scripts, e.name)
		case ext == ".yaml", ext == ".yml", ext == ".json":
			manifests = append(manifests, e.name)
		}
	}
	if slices.Contains(charts, dir) {
		charts = []string{dir} // those below it are its dependencies
	}
	// An application's commands run in its own directory.
	here := func(name string) string { return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(name, dir), "/"), ".") }
	app.Cmds = nil
	switch {
	case len(charts) > 0:
		app.Type = appHelm
		for _, c := range charts {
			release := app.Name
			if len(charts) > 1 {
				release += "-" + strings.TrimSuffix(path.Base(c), ".tgz")
			}
			app.Cmds = append(app.Cmds, fmt.Sprintf("helm upgrade --install %s %s%s", release, local(here(c)), overlays(app.Files, c, here)))
		}
	case len(scripts) > 0:
		app.Type = appShell
		for _, s := range scripts {
			app.Cmds = append(app.Cmds, "bash "+here(s))
		}
	case len(manifests) > 0:
		app.Type = appKube
		for _, m := range manifests {
			app.Cmds = append(app.Cmds, "kubectl apply -f "+here(m))
		}
	case pb.appCmds(app.Name) == nil && (!pb.partial || pb.unknownBase): // else its APPCMDS may be the instruction that cannot be read
		return pb.fault(st.in, fmt.Sprintf("application %s: no type is found: it has no Chart.yaml, no .yaml and no .sh", app.Name),
			fmt.Sprintf("say how it starts: APPCMDS %s [\"COMMAND\"]", app.Name), nil)
	}
	return nil
}

// local returns a path that Helm does not take for a chart of a repository.
func local(name string) string {
	if name == "." {
		return name
	}
	return "./" + name
}

// overlays are the flags for the values files that lie beside a chart, by the paths
// that here gives them: discovery renders the chart with the same.
func overlays(files []string, chart string, here func(string) string) (flags string) {
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(chart), ".tgz"), ".tar.gz")
	for _, name := range []string{path.Join(path.Dir(chart), base+".values.yaml"), path.Join(path.Dir(chart), base, "values.sealer.yaml")} {
		if slices.Contains(files, name) {
			flags += " -f " + here(name)
		}
	}
	return flags
}

// chartVersion reads the version of a Chart.yaml; "" when it has none.
func chartVersion(e *entry) string {
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSmallFile))
	if err != nil {
		return ""
	}
	var chart struct{ Version string }
	if yaml.Unmarshal(b, &chart) != nil {
		return ""
	}
	return chart.Version
}

// appCmds returns the APPCMDS of an application, the last of them.
func (pb *platformBuild) appCmds(name string) *kubefile.AppCmds {
	var last *kubefile.AppCmds
	for _, in := range pb.file.Instructions {
		if c, ok := in.(*kubefile.AppCmds); ok && c.Name == name {
			last = c
		}
	}
	return last
}

// configureApp records LAUNCH and CMDS, and checks that the named applications
// exist.
func (pb *platformBuild) configureApp(in kubefile.Instruction) error {
	known := func(name string) error {
		if pb.partial || pb.app(name) != nil || pb.declares(name) {
			return nil
		}
		var names []string
		for _, a := range pb.config.Applications {
			names = append(names, a.Name)
		}
		fix := fmt.Sprintf("add APP %s local://PATH", name)
		if s := kubefile.Suggest(name, names); s != "" {
			fix = "did you mean " + s + "?"
		}
		return pb.fault(in, fmt.Sprintf("there is no application %s, here or in the base", name), fix, nil)
	}
	switch in := in.(type) {
	case *kubefile.AppCmds:
		return known(in.Name)
	case *kubefile.AppEnv:
		return known(in.Name)
	case *kubefile.Launch:
		var errs []error
		for _, a := range in.Apps {
			errs = append(errs, known(a))
		}
		pb.config.Launch = &image.Launch{Apps: in.Apps}
		return joinFaults(errs...)
	case *kubefile.Cmds:
		pb.config.Launch = &image.Launch{Cmds: in.Commands}
	}
	return nil
}

// declares reports whether an APP, CNI or CSI anywhere in the file has the name,
// or the base has it, be it part of the image or not.
func (pb *platformBuild) declares(name string) bool {
	if pb.base != nil && slices.ContainsFunc(pb.base.Config.Applications, func(a image.Application) bool { return a.Name == name }) {
		return true
	}
	return slices.ContainsFunc(pb.file.Instructions, func(in kubefile.Instruction) bool {
		a, ok := in.(*kubefile.App)
		return ok && a.Name == name
	})
}

// finishConfig sets the fields of the config that depend on the whole file.
func (pb *platformBuild) finishConfig() {
	c := &pb.config
	var apps, own, launch bool
	for _, in := range pb.file.Instructions {
		switch in := in.(type) {
		case *kubefile.App:
			apps = apps || in.Kind == "APP" // CNI and CSI belong to the cluster
		case *kubefile.Cmd:
			own = true
		case *kubefile.Launch, *kubefile.Cmds:
			launch = true
		}
	}
	if own && !launch && c.Launch != nil {
		c.Launch = nil
		pb.b.warn("the base's LAUNCH is dropped: CMD would have no effect beside it")
	}
	c.Type = image.TypeKubeInstaller
	switch {
	case pb.b.o.Type != "":
		c.Type = pb.b.o.Type
	case pb.base != nil && pb.b.withBase():
		c.Type = cmp.Or(pb.base.Config.Type, c.Type)
	case pb.base != nil, apps && !own:
		c.Type = image.TypeAppInstaller
	}
}

// finishApps lets APPCMDS and APPENV have the last word, when all types are
// known.
func (pb *platformBuild) finishApps() {
	for _, in := range pb.file.Instructions {
		switch in := in.(type) {
		case *kubefile.AppCmds:
			app := pb.app(in.Name)
			if app == nil {
				continue // the base's, and the base is left out
			}
			app.Cmds = in.Commands
			app.Type = cmp.Or(app.Type, appShell)
		case *kubefile.AppEnv:
			app := pb.app(in.Name)
			if app == nil {
				continue
			}
			app.Env = maps.Clone(app.Env)
			if app.Env == nil {
				app.Env = map[string]string{}
			}
			for _, p := range in.Pairs {
				app.Env[p.Name] = p.Value
			}
		}
	}
}
