package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/rootfs"
	"github.com/clusterimage/sealer/store"
)

// A source is the ClusterImage of a run: its description for the plan, and the
// store that holds its bytes.
type source struct {
	plan.Image
	store  *store.Store
	stored *store.Image
	files  *rootfs.FS
	full   ocispec.Descriptor
	// bare is the same image without its container images, for machines that
	// serve none.
	bare ocispec.Descriptor
}

// readImage opens an image of the store.
func readImage(ctx context.Context, s *store.Store, name string) (_ *source, err error) {
	if err := s.Hold(ctx); err != nil {
		return nil, err
	}
	im, err := s.Image(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	src := &source{store: s, stored: im, full: im.ManifestDescriptor}
	if src.files, err = s.Rootfs(im.LayerIDs()); err != nil {
		return nil, err
	}
	src.Image = plan.Image{
		Name: name, Digest: src.full.Digest.String(), Arch: im.Config.Platform.Architecture, Type: im.Config.Type,
		Private: im.Config.PrivateRegistry.Name,
	}
	if err := src.read(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("image %s: %w", name, err), src.Close())
	}
	return src, nil
}

// Close frees the image.
func (s *source) Close() error { return s.files.Close() }

func (s *source) read(ctx context.Context) error {
	if err := s.content(ctx); err != nil {
		return err
	}
	for _, i := range s.stored.Config.Served(s.stored.Documents) {
		s.Hosts = append(s.Hosts, i.Reference.Registry)
		s.References = append(s.References, i.Reference.String())
	}
	slices.Sort(s.Hosts)
	s.Hosts = slices.Compact(s.Hosts)
	slices.Sort(s.References)
	s.Files = map[string]uint32{}
	err := fs.WalkDir(s.files, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == "registry" && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		info, err := fs.Stat(s.files, p)
		if errors.Is(err, fs.ErrNotExist) { // a link to nowhere
			return nil
		}
		if err == nil && info.Mode().IsRegular() {
			s.Files[p] = uint32(info.Mode().Perm())
		}
		return err
	})
	s.Kubernetes = s.version()
	return err
}

// content lists the blobs, and makes the bare image.
func (s *source) content(ctx context.Context) error {
	config := s.stored.Config
	config.Layers, config.Images = nil, nil
	var layers []image.Layer
	for i, l := range s.stored.Layers {
		for _, d := range l.Descriptors {
			b := plan.Blob{Digest: d.Digest.String(), Size: d.Size}
			if l.IsRegistry() {
				s.Registry = append(s.Registry, b)
			} else {
				s.Layers = append(s.Layers, b)
			}
		}
		if !l.IsRegistry() {
			layers = append(layers, l)
			config.Layers = append(config.Layers, s.stored.Config.Layers[i])
		}
	}
	var err error
	if s.bare, err = s.store.WriteImage(ctx, config, layers, nil); err != nil {
		return err
	}
	for _, d := range []ocispec.Descriptor{s.full, s.bare} {
		more, err := s.heads(ctx, d)
		if err != nil {
			return err
		}
		if d.Digest == s.full.Digest {
			s.Registry = append(s.Registry, more...)
		}
		if d.Digest == s.bare.Digest {
			s.Layers = append(s.Layers, more...)
		}
	}
	return nil
}

// heads are the manifest and the config of an image, and its blob manifests with
// their config.
func (s *source) heads(ctx context.Context, d ocispec.Descriptor) ([]plan.Blob, error) {
	b, err := s.store.ReadBlob(ctx, d.Digest, 64<<20)
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	out := []plan.Blob{{Digest: d.Digest.String(), Size: d.Size}, {Digest: m.Config.Digest.String(), Size: m.Config.Size}}
	if apart := s.stored.Config.BlobManifests(); d.Digest == s.full.Digest && len(apart) > 0 {
		empty, _ := image.EmptyConfig()
		for _, d := range append(apart, empty) {
			out = append(out, plan.Blob{Digest: d.Digest.String(), Size: d.Size})
		}
	}
	return out, nil
}

// version is the image's Kubernetes: of Metadata, else of its label.
func (s *source) version() string {
	var meta struct {
		Version string `json:"version"`
	}
	if b, err := fs.ReadFile(s.files, "Metadata"); err == nil && json.Unmarshal(b, &meta) == nil && meta.Version != "" {
		return meta.Version
	}
	return s.stored.Config.Labels["cluster.alpha.sealer.io/cluster-runtime-version"]
}

// programFile is the image's own sealer, for machines whose architecture is not
// the engine's.
const programFile = "bin/sealer"

// program returns the image's sealer when it is for such machines; nil without
// one.
func (s *source) program(goos, goarch string) (*session.Program, error) {
	if !s.has(programFile) || goos != "linux" || goarch != s.Arch {
		return nil, nil
	}
	open := func() (io.ReadCloser, error) { return s.files.Open(programFile) }
	f, err := open()
	if err != nil {
		return nil, err
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s of image %s: %w", programFile, s.Name, err)
	}
	return &session.Program{OS: goos, Arch: goarch, Digest: "sha256:" + hex.EncodeToString(h.Sum(nil)), Open: open}, nil
}

// has says whether the image has a file.
func (s *source) has(name string) bool {
	_, ok := s.Files[name]
	return ok
}

// documents are kubeadm's documents that the image brings.
func (s *source) documents() ([]spec.Document, error) {
	for _, name := range []string{"etc/kubeadm.yml", "etc/kubeadm.yaml"} {
		b, err := fs.ReadFile(s.files, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := spec.Parse(path.Base(name)+" of "+s.Name, b)
		if err != nil {
			return nil, err
		}
		return f.Kubeadm, nil
	}
	return nil, nil
}

// commands returns the commands to run once the cluster works: the
// Clusterfile's, else its applications', else the image's.
func (s *source) commands(f *spec.File) ([]plan.Command, error) {
	c := s.stored.Config
	list := func(cmds []string) []plan.Command {
		var out []plan.Command
		for _, cmd := range cmds {
			out = append(out, plan.Command{Run: cmd, Env: arguments(c, f.Cluster.CmdArgs)})
		}
		return out
	}
	apps := f.Cluster.AppNames
	switch a := f.Application; {
	case len(f.Cluster.Cmd) > 0:
		return list(f.Cluster.Cmd), nil
	case a != nil && len(a.Cmds) > 0:
		return list(a.Cmds), nil
	case len(apps) > 0:
	case a != nil && len(a.LaunchApps) > 0:
		apps = a.LaunchApps
	case c.Launch != nil && len(c.Launch.Cmds) > 0:
		return append(list(c.Cmd.Parent), list(c.Launch.Cmds)...), nil
	case c.Launch != nil:
		apps = c.Launch.Apps
	default:
		return list(slices.Concat(c.Cmd.Parent, c.Cmd.Current)), nil
	}
	out := list(c.Cmd.Parent)
	for _, name := range apps {
		more, err := s.application(f, name)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// arguments returns the build arguments that CMD may use. The values of the run
// replace the values of the build.
func arguments(c image.Config, over []string) map[string]string {
	env := map[string]string{}
	for _, m := range []map[string]string{c.Env, c.Args.Parent, c.Args.Current} {
		for k, v := range m {
			env[k] = v
		}
	}
	for _, line := range over {
		if k, v, ok := strings.Cut(line, "="); ok {
			env[k] = v
		}
	}
	return env
}

// application returns the start commands of one application: the Clusterfile's,
// else the image's, else the default of the application's type.
func (s *source) application(f *spec.File, name string) ([]plan.Command, error) {
	i := slices.IndexFunc(s.stored.Config.Applications, func(a image.Application) bool { return a.Name == name })
	if i < 0 {
		var known []string
		for _, a := range s.stored.Config.Applications {
			known = append(known, a.Name)
		}
		return nil, fmt.Errorf("image %s has no application %s: it has %s", s.Name, name, strings.Join(known, ", "))
	}
	app := s.stored.Config.Applications[i]
	dir := image.AppDir(name)
	cmds, env := app.Cmds, arguments(s.stored.Config, nil)
	for k, v := range app.Env {
		env[k] = v
	}
	if f.Application != nil {
		for _, c := range f.Application.Configs {
			if c.Name != name {
				continue
			}
			for _, line := range c.Env {
				if k, v, ok := strings.Cut(line, "="); ok {
					env[k] = v
				}
			}
			if c.Launch != nil && len(c.Launch.Cmds) > 0 {
				cmds = c.Launch.Cmds
			}
		}
	}
	if len(cmds) == 0 {
		cmds = standard(app)
	}
	if len(cmds) == 0 {
		return nil, fmt.Errorf("application %s of image %s has no start command: give one in the Clusterfile, under Application, configs, launch", name, s.Name)
	}
	var out []plan.Command
	for _, c := range cmds {
		out = append(out, plan.Command{App: name, Run: c, Dir: dir, Env: env})
	}
	return out, nil
}

// standard is the start command of an application's type.
func standard(a image.Application) []string {
	switch a.Type {
	case "helm":
		return []string{"helm upgrade --install " + a.Name + " ."}
	case "kube":
		return []string{"kubectl apply -f ."}
	case "shell":
		var out []string
		for _, f := range a.Files {
			if strings.HasSuffix(f, ".sh") {
				out = append(out, "sh "+path.Base(f))
			}
		}
		return out
	}
	return nil
}
