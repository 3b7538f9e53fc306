package build

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/store"
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

// planApp finds the sources of an application, and by them its type. Its files
// go to application/apps/NAME: what a directory holds, and single files.
func (t *target) planApp(ctx context.Context, in *kubefile.App) (step, error) {
	st := &appStep{in: in}
	var inputs []input
	var errs []error
	missing := false // a source is not looked at by a build that fails anyway
	for _, src := range in.Sources {
		var found []input
		var err error
		if local, ok := strings.CutPrefix(src, "local://"); ok {
			found, err = t.b.local(local)
		} else {
			found, err = t.b.fetch(ctx, src, &kubefile.Copy{At: in.At})
		}
		if err != nil {
			errs = append(errs, t.fault(in, fmt.Sprintf("%s: %v", redacted(src), err), fixFor(err), err))
		}
		missing = missing || len(found) == 0
		inputs = append(inputs, found...)
	}
	if in.Kind != "APP" {
		t.config.Labels[fmt.Sprintf(labelPlugin, strings.ToLower(in.Kind), in.Name)] = "true"
	}
	// An application of the base with this name is replaced, files and all.
	replaced := t.app(in.Name) != nil
	t.config.Applications = slices.DeleteFunc(t.config.Applications, func(a store.Application) bool { return a.Name == in.Name })
	t.config.Applications = append(t.config.Applications, store.Application{Name: in.Name})
	dir := store.AppDir(in.Name)
	err := st.walk(t, inputs, dir)
	if err != nil {
		errs = append(errs, t.faults(in, err))
	} else if !missing {
		errs = append(errs, st.recognise(t, t.app(in.Name), st.entries, dir))
	}
	if replaced {
		st.entries, err = arrange(append(st.entries, entry{name: dir, typ: tar.TypeDir, mode: 0o755}, entry{name: path.Join(dir, opaqueName), typ: tar.TypeReg, mode: 0o644}))
		errs = append(errs, err)
	}
	return st, errors.Join(errs...)
}

// walk lists what the layer will hold.
func (st *appStep) walk(t *target, inputs []input, dir string) error {
	var all []entry
	var errs []error
	for _, in := range inputs {
		w := &walker{chmod: -1, warn: func(msg string) { t.warn(st.in, msg) }}
		if !in.remote {
			w.ctx = t.b.ctx
		}
		to := dir
		if !in.Dir {
			to = path.Join(dir, path.Base(in.Name))
		}
		w.add(in.root, in.path, in.info, to, in.Dir)
		all, errs = append(all, w.entries...), append(errs, w.errs...)
	}
	err := errors.Join(errs...)
	if err == nil {
		st.entries, err = arrange(all)
	}
	return err
}

// run writes the application's files.
func (st *appStep) run(ctx context.Context, t *target) error {
	return t.begin(ctx, st.in, store.ConfigLayer{Type: "COPY", Value: st.title()}, func() (store.Layer, error) {
		return t.writeLayer(ctx, st.in, st.entries)
	})
}

// app returns the application in the config, or nil.
func (t *target) app(name string) *store.Application {
	for i := range t.config.Applications {
		if t.config.Applications[i].Name == name {
			return &t.config.Applications[i]
		}
	}
	return nil
}

// recognise finds the application's type by its files, and the commands that
// start one of this type.
func (st *appStep) recognise(t *target, app *store.Application, files []entry, dir string) error {
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
	app.Cmds = nil
	switch {
	case len(charts) > 0:
		app.Type = appHelm
		for _, c := range charts {
			release := app.Name
			if len(charts) > 1 {
				release += "-" + strings.TrimSuffix(path.Base(c), ".tgz")
			}
			app.Cmds = append(app.Cmds, fmt.Sprintf("helm upgrade --install %s %s", release, c))
		}
	case len(scripts) > 0:
		app.Type = appShell
		for _, s := range scripts {
			app.Cmds = append(app.Cmds, "bash "+s)
		}
	case len(manifests) > 0:
		app.Type = appKube
		for _, m := range manifests {
			app.Cmds = append(app.Cmds, "kubectl apply -f "+m)
		}
	case t.appCmds(app.Name) == nil && (!t.partial || t.unknownBase): // else its APPCMDS may be what cannot be read
		return t.fault(st.in, fmt.Sprintf("application %s: no type is found: it has no Chart.yaml, no .yaml and no .sh", app.Name),
			fmt.Sprintf("say how it starts: APPCMDS %s [\"COMMAND\"]", app.Name), nil)
	}
	return nil
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
func (t *target) appCmds(name string) *kubefile.AppCmds {
	var last *kubefile.AppCmds
	for _, in := range t.file.Instructions {
		if c, ok := in.(*kubefile.AppCmds); ok && c.Name == name {
			last = c
		}
	}
	return last
}

// configureApp takes what LAUNCH and CMDS say, and checks that the applications
// that instructions name are there.
func (t *target) configureApp(in kubefile.Instruction) error {
	known := func(name string) error {
		if t.partial || t.app(name) != nil || t.declares(name) {
			return nil
		}
		var names []string
		for _, a := range t.config.Applications {
			names = append(names, a.Name)
		}
		fix := fmt.Sprintf("add APP %s local://PATH", name)
		if s := kubefile.Suggest(name, names); s != "" {
			fix = "did you mean " + s + "?"
		}
		return t.fault(in, fmt.Sprintf("there is no application %s, here or in the base", name), fix, nil)
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
		t.config.Launch = &store.Launch{Apps: in.Apps}
		return errors.Join(errs...)
	case *kubefile.Cmds:
		t.config.Launch = &store.Launch{Cmds: in.Commands}
	}
	return nil
}

// declares reports whether an APP, CNI or CSI anywhere in the file has the name,
// or the base has it, be it part of the image or not.
func (t *target) declares(name string) bool {
	if t.base != nil && slices.ContainsFunc(t.base.Config.Applications, func(a store.Application) bool { return a.Name == name }) {
		return true
	}
	return slices.ContainsFunc(t.file.Instructions, func(in kubefile.Instruction) bool {
		a, ok := in.(*kubefile.App)
		return ok && a.Name == name
	})
}

// finishConfig decides what depends on the whole file.
func (t *target) finishConfig() {
	c := &t.config
	var apps, own, launch bool
	for _, in := range t.file.Instructions {
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
		t.b.warn("the base's LAUNCH is dropped: CMD would have no effect beside it")
	}
	c.Type = store.TypeKubeInstaller
	switch {
	case t.b.o.Type != "":
		c.Type = t.b.o.Type
	case t.base != nil && t.b.withBase():
		c.Type = orDefault(t.base.Config.Type, c.Type)
	case t.base != nil, apps && !own:
		c.Type = store.TypeAppInstaller
	}
}

// finishApps lets APPCMDS and APPENV have the last word, when all types are
// known.
func (t *target) finishApps() {
	for _, in := range t.file.Instructions {
		switch in := in.(type) {
		case *kubefile.AppCmds:
			app := t.app(in.Name)
			if app == nil {
				continue // the base's, and the base is left out
			}
			app.Cmds = in.Commands
			app.Type = orDefault(app.Type, appShell)
		case *kubefile.AppEnv:
			app := t.app(in.Name)
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

// annotations returns the manifest's annotations: the user's, and those by
// which tools of sealer 0.9 know a ClusterImage.
func (t *target) annotations() map[string]string {
	c := t.config
	ext := store.Extension{
		BuildClient:   store.BuildClient{SealerVersion: c.SealerVersion},
		SchemaVersion: "v1alpha1",
		Type:          c.Type,
		Labels:        c.Labels,
		Env:           c.Env,
	}
	for _, a := range c.Applications {
		app := store.ExtensionApp{Application: a}
		app.Files = nil
		for _, f := range a.Files {
			app.Files = append(app.Files, strings.TrimPrefix(f, store.AppDir(a.Name)+"/"))
		}
		ext.Applications = append(ext.Applications, app)
	}
	if c.Launch != nil {
		ext.Launch = store.ExtensionLaunch{Cmds: c.Launch.Cmds, AppNames: c.Launch.Apps}
	}
	var images []store.ExtensionImage
	for _, im := range c.Images {
		if im.Missing == "" {
			images = append(images, store.ExtensionImage{Image: im.Reference, AppName: appOf(im), Platform: &c.Platform})
		}
	}
	out := map[string]string{}
	maps.Copy(out, t.b.o.Annotations)
	out[store.AnnotationExtension] = compactJSON(ext)
	if images != nil {
		out[store.AnnotationContainerImages] = compactJSON(images)
	}
	return out
}

// compactJSON encodes plain data, which always succeeds, leaving <, > and & as
// they are.
func compactJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return strings.TrimSpace(b.String())
}

// appOf returns the application whose files ask for an image, or "".
func appOf(im store.MirroredImage) string {
	for _, p := range im.Found {
		if rest, ok := strings.CutPrefix(p.File, store.AppDir("")+"/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			return name
		}
	}
	return ""
}

// familiar shortens a reference for messages.
func familiar(s string) string {
	if r, err := ref.Parse(s); err == nil {
		return r.Familiar()
	}
	return s
}
