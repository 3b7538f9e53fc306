package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/registry/registrytest"
)

// rare are the names of docs/store.md that this test does not provoke: mounts
// need root, and the rest a process that is killed or reads for long.
var rare = map[string]bool{
	"image/layers": true, "data/overlay2-root/ID/": true, "data/overlay2-user/ID/": true, "locks/recover": true, "mounts/": true, "mounts/HEX.json": true, "mounts/HEX.changes/": true, "mounts/private/": true, "mounts/empty/": true,
	"tmp/session-RANDOM": true, "tmp/pin-RANDOM": true, "tmp/partial-HEX": true, "cache/charts/": true, "cache/charts.json": true,
}

// general turns the names of files that are there into those of the page.
var general = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`^(image/blobs/sha256/)[0-9a-f]{64}$`), "${1}HEX"},
	{regexp.MustCompile(`^(data/overlay2/)[0-9a-f]{64}/$`), "${1}ID/"},
	{regexp.MustCompile(`^(cache/[a-z]+/)[0-9a-f]{64}(\.json)$`), "${1}KEY${2}"},
	{regexp.MustCompile(`^(cache/stat/)[0-9a-f]{32}$`), "${1}KEY"},
}

// The files of a store are those of docs/store.md, with the modes that stand
// there, and each of the page's is made or is one of the rare.
func TestStorePage(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes are Unix's")
	}
	page := storePage(t)
	seen := map[string]bool{}
	root := filledStore(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			name += "/"
		}
		for _, g := range general {
			name = g.pattern.ReplaceAllString(name, g.name)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if got := fmt.Sprintf("%04o", fi.Mode().Perm()); page[name] != got {
			t.Errorf("%s has the mode %s, docs/store.md says %q", name, got, page[name])
		}
		seen[name] = true
		if strings.HasSuffix(name, "/ID/") {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range page {
		if seen[name] == rare[name] {
			t.Errorf("%s: made here is %v, and rare is %v", name, seen[name], rare[name])
		}
	}
	source := programText(t)
	for _, text := range []string{`"image", "layers"`, `"data/overlay2-root"`, `"data/overlay2-user"`, `"recover"`, `"mounts", "private"`, `"mounts", "empty"`, `".changes"`, `"session-"`, `"pin-"`, `"partial-"`, `"charts.json"`} {
		if !strings.Contains(source, text) {
			t.Errorf("no source has %s: correct docs/store.md", text)
		}
	}
}

// storePage returns the mode of each path of the page's table.
func storePage(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/store.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (0[0-7]{3}) \\|").FindAllStringSubmatch(string(page), -1) {
		out[m[1]] = m[2]
	}
	if len(out) < 30 {
		t.Fatalf("%d rows found; is the page's form another?", len(out))
	}
	return out
}

// filledStore makes a store with an image by a build, and serves and lists it.
func filledStore(t *testing.T) string {
	t.Helper()
	up := registrytest.New(t, registrytest.Options{Images: []registrytest.Image{{Name: "mirror.test/team/app:v1", Layers: []registrytest.Layer{{Name: "a", Size: 512}}}}})
	dir := t.TempDir()
	for name, content := range map[string]string{
		"context/Kubefile": "FROM scratch\nCOPY imageList manifests\nCOPY a etc/a\n", "context/imageList": "mirror.test/team/app:v1\n", "context/a": "a", "registries.conf": up.RegistriesConf("mirror.test"),
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "store")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Args[0] = "sealer" // see testscript.Main
		cmd.Env = append(os.Environ(), "SEALER_ROOT="+root, "NO_PROXY=127.0.0.1", "CONTAINERS_REGISTRIES_CONF="+filepath.Join(dir, "registries.conf"))
		return cmd
	}
	for _, args := range [][]string{
		{"build", "-t", "app:v1", "--no-referrers", "--platform", "linux/amd64", filepath.Join(dir, "context")}, {"tag", "app:v1", "app:v2"}, {"images"},
		{"build", "-t", "app:v1", "--no-referrers", "--platform", "linux/amd64", filepath.Join(dir, "context")},
	} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	ready := filepath.Join(dir, "ready")
	serve := command("registry", "serve", "app:v1", "--self-signed", "--addr", "127.0.0.1:0", "--ready-file", ready)
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("registry serve is not ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := serve.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = serve.Wait()
	return root
}
