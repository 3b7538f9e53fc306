package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/registrytest"
)

// runVersion measures a start of the program beside one of skopeo.
func runVersion(ctx context.Context, m *meter) error {
	fi, err := os.Stat(m.sealer)
	if err != nil {
		return err
	}
	if err := m.add(figure.Figure{Name: "bytes of the program", Value: float64(fi.Size()) / 1e6, Unit: "MB", Goal: new(45.0)}); err != nil {
		return err
	}
	ours := []string{m.sealer, "version"}
	if _, err := exec.LookPath("skopeo"); err != nil {
		return m.pairs(ctx, "start, `sealer version`", 21, nil, ours, "", nil)
	}
	return m.pairs(ctx, "start, `sealer version`", 21, new(30.0), ours, "skopeo --version", []string{"skopeo", "--version"})
}

// pairs runs two programs in turn and notes processor time in ms, with a goal,
// wall time and memory. Without a peer ours runs alone.
func (m *meter) pairs(ctx context.Context, name string, n int, goal *float64, ours []string, peer string, theirs []string) error {
	if m.quick {
		n = 3
	}
	var own, other []usage
	for range n {
		u, err := m.run(ctx, ours[0], ours[1:]...)
		if err != nil {
			return err
		}
		own = append(own, u)
		if peer == "" {
			continue
		}
		if u, err = m.run(ctx, theirs[0], theirs[1:]...); err != nil {
			return err
		}
		other = append(other, u)
	}
	for _, q := range []struct {
		unit string
		of   func(usage) float64
	}{
		{"CPU ms", func(u usage) float64 { return u.cpu * 1000 }},
		{"ms", func(u usage) float64 { return u.wall * 1000 }},
		{"MB of memory", func(u usage) float64 { return u.mb }},
	} {
		f := figure.Figure{Name: name, Unit: q.unit, Runs: n}
		f.Value, f.Low, f.High = median(each(own, q.of))
		if peer != "" {
			f.Peer = peer
			f.PeerValue, _, _ = median(each(other, q.of))
		}
		if q.unit == "CPU ms" && goal != nil { // of ours alone: no ratio
			if err := m.add(figure.Figure{Name: name + ", alone", Value: f.Value, Unit: q.unit, Runs: n, Goal: goal}); err != nil {
				return err
			}
		}
		if err := m.add(f); err != nil {
			return err
		}
	}
	return nil
}

func each(us []usage, of func(usage) float64) (out []float64) {
	for _, u := range us {
		out = append(out, of(u))
	}
	return out
}

// point notes one point of a growth: processor time and memory of a command.
func (m *meter) point(name string, u usage, x int, unit string) error {
	for _, f := range []figure.Figure{{Value: u.cpu, Unit: "CPU s"}, {Value: u.mb, Unit: "MB of memory"}} {
		f.Name, f.X, f.XUnit = name, float64(x), unit
		if err := m.add(f); err != nil {
			return err
		}
	}
	return nil
}

// context writes a build context.
func (m *meter) context(dir string, files map[string]string) (string, error) {
	dir = filepath.Join(m.dir, dir)
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// runImages measures a ClusterImage's whole way by its number of images.
func runImages(ctx context.Context, m *meter) error {
	sizes := []int{1, 20, 200, 500}
	if m.quick {
		sizes = []int{1, 5}
	}
	for _, n := range sizes {
		if err := m.images(ctx, n); err != nil {
			return fmt.Errorf("%d images: %w", n, err)
		}
	}
	return nil
}

func (m *meter) images(ctx context.Context, n int) error {
	var images []registrytest.Image
	var list strings.Builder
	for i := range n {
		name := fmt.Sprintf("mirror.test/team-%02d/app-%04d:v1", i%20, i)
		images = append(images, registrytest.Image{Name: name, Layers: []registrytest.Layer{{Name: name + "/a", Size: 512}, {Name: name + "/b", Size: 512}}})
		fmt.Fprintln(&list, name)
	}
	up, err := registrytest.Start(registrytest.Options{Images: images})
	if err != nil {
		return err
	}
	defer up.Close()
	dir := fmt.Sprintf("images-%d", n)
	from, err := m.context(dir+"/context", map[string]string{"imageList": list.String(), "Kubefile": "FROM scratch\nCOPY imageList manifests\n"})
	if err != nil {
		return err
	}
	conf := filepath.Join(m.dir, dir, "registries.conf")
	if err := os.WriteFile(conf, []byte(up.RegistriesConf("mirror.test")), 0o600); err != nil {
		return err
	}
	m.env = []string{"CONTAINERS_REGISTRIES_CONF=" + conf}
	name, plain := up.Host()+"/team/lab:v1", "--insecure-registry="+up.Host()
	if err := m.imageSteps(ctx, up, n, dir, from); err != nil {
		return err
	}
	if _, err := exec.LookPath("skopeo"); err == nil && (n == 200 || m.quick) {
		pull := []string{m.sealer, "--root", filepath.Join(m.dir, "again"), "--progress", "none", "pull", plain, name}
		copied := []string{"skopeo", "copy", "--quiet", "--src-tls-verify=false", "docker://" + name, "oci:" + filepath.Join(m.dir, "oci") + ":v1"}
		emptied := func(args []string, dir string) []string {
			return append([]string{"sh", "-c", `rm -rf "$0"; exec "$@"`, dir}, args...)
		}
		return m.pairs(ctx, fmt.Sprintf("pull of %d images beside a copy to an OCI layout", n), 5, nil,
			emptied(pull, filepath.Join(m.dir, "again")), "skopeo copy", emptied(copied, filepath.Join(m.dir, "oci")))
	}
	return nil
}

// imageSteps measures each command on the way of a ClusterImage of n images, which
// the context from lists and up serves.
func (m *meter) imageSteps(ctx context.Context, up *registrytest.Upstream, n int, dir, from string) error {
	name, plain := up.Host()+"/team/lab:v1", "--insecure-registry="+up.Host()
	near, far := filepath.Join(m.dir, dir, "near"), filepath.Join(m.dir, dir, "far")
	build := []string{"build", "-q", "--no-referrers", "--platform", "linux/amd64", "-t", name, from}
	archive := filepath.Join(m.dir, dir, "lab.tar")
	for _, step := range []struct {
		name, root string
		args       []string
		counted    bool // its requests are a figure
	}{
		{"build", near, build, true},
		{"build again", near, build, true},
		{"push", near, []string{"push", plain, name}, true},
		{"push again", near, []string{"push", plain, name}, true},
		{"pull", far, []string{"pull", plain, name}, true},
		{"pull again", far, []string{"pull", plain, name}, true},
		{"verify", far, []string{"verify", name}, false},
		{"save", far, []string{"save", "-o", archive, name}, false},
		{"load", filepath.Join(m.dir, dir, "third"), []string{"load", "-i", archive}, false},
	} {
		before := len(up.Requests())
		u, err := m.sealerRun(ctx, step.root, step.args...)
		if err != nil {
			return err
		}
		if err := m.point(step.name, u, n, "images"); err != nil {
			return err
		}
		if step.counted {
			f := figure.Figure{Name: step.name, Value: float64(len(up.Requests()) - before), Unit: "requests", X: float64(n), XUnit: "images"}
			if err := m.add(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// runFiles measures builds by the number of files of a COPY.
func runFiles(ctx context.Context, m *meter) error {
	sizes := []int{1_000, 10_000, 100_000}
	if m.quick {
		sizes = []int{100, 1_000}
	}
	for _, n := range sizes {
		files := map[string]string{"Kubefile": "FROM scratch\nCOPY files files\n"}
		for i := range n {
			files[fmt.Sprintf("files/d%03d/f%06d", i%300, i)] = fmt.Sprintf("the content of file %d", i)
		}
		if err := m.twice(ctx, fmt.Sprintf("files-%d", n), files, n, "files"); err != nil {
			return err
		}
	}
	return nil
}

// runLayers measures builds by the number of COPYs.
func runLayers(ctx context.Context, m *meter) error {
	sizes := []int{1, 10, 100, 400}
	if m.quick {
		sizes = []int{1, 5}
	}
	for _, n := range sizes {
		files := map[string]string{}
		var text strings.Builder
		text.WriteString("FROM scratch\n")
		for i := range n {
			files[fmt.Sprintf("f%d", i)] = fmt.Sprintf("the content of file %d", i)
			fmt.Fprintf(&text, "COPY f%d etc/f%d\n", i, i)
		}
		files["Kubefile"] = text.String()
		if err := m.twice(ctx, fmt.Sprintf("layers-%d", n), files, n, "layers"); err != nil {
			return err
		}
	}
	return nil
}

// twice builds a context, and again with nothing changed, and exports it.
func (m *meter) twice(ctx context.Context, dir string, files map[string]string, n int, unit string) error {
	from, err := m.context(dir, files)
	if err != nil {
		return err
	}
	root := filepath.Join(m.dir, dir+"-store")
	for _, step := range []struct {
		name string
		args []string
	}{
		{"build", []string{"build", "-q", "--scan", "off", "-t", "lab:v1", from}},
		{"build again", []string{"build", "-q", "--scan", "off", "-t", "lab:v1", from}},
		{"verify", []string{"verify", "lab:v1"}},
		{"export", []string{"export", "lab:v1", filepath.Join(m.dir, dir+"-out")}},
	} {
		u, err := m.sealerRun(ctx, root, step.args...)
		if err != nil {
			return fmt.Errorf("%d %s: %w", n, unit, err)
		}
		if err := m.point(step.name, u, n, unit); err != nil {
			return err
		}
	}
	return nil
}
