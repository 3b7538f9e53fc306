package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// keys writes a private and a public key and returns their files.
func keys(t *testing.T) (private, public string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	open, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "key"), filepath.Join(dir, "key.pub")
	write(t, private, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	write(t, public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: open}))
	return private, public
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run returns the output of a command and whether it succeeded.
func run(name string, args ...string) (string, bool) {
	b, err := exec.Command(name, args...).CombinedOutput()
	return string(b), err == nil
}

// here is a release for the machine of the test.
func here(t *testing.T, out, key string) {
	t.Helper()
	o := options{root: "..", out: out, key: key, platforms: []platform{platform(runtime.GOOS + "/" + runtime.GOARCH)}}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A directory with files of somebody's own is not made anew.
func TestReplaceable(t *testing.T) {
	dir := t.TempDir()
	for _, free := range []string{dir, filepath.Join(dir, "new")} {
		if err := replaceable(free); err != nil {
			t.Errorf("%s: %v", free, err)
		}
	}
	write(t, filepath.Join(dir, "thesis"), nil)
	if err := (options{root: "..", out: dir}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "-out") {
		t.Errorf("a directory of others: %v", err)
	}
	read(t, filepath.Join(dir, "thesis"))
	write(t, filepath.Join(dir, "SHA256SUMS"), nil)
	if err := replaceable(dir); err != nil {
		t.Errorf("an earlier release: %v", err)
	}
}

func one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

func TestRelease(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("packages are made for Linux")
	}
	dir := t.TempDir()
	private, public := keys(t)
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	here(t, first, private)
	here(t, second, private)
	a, b := read(t, filepath.Join(first, "SHA256SUMS")), read(t, filepath.Join(second, "SHA256SUMS"))
	if !bytes.Equal(a, b) {
		t.Errorf("two releases of one commit differ:\n%s\n%s", a, b)
	}
	t.Run("install", func(t *testing.T) { install(t, first, public) })
	t.Run("inventory", func(t *testing.T) { inventory(t, first) })
	t.Run("packages", func(t *testing.T) { packages(t, first) })
	t.Run("deb", func(t *testing.T) { installDeb(t, one(t, filepath.Join(first, "*.deb"))) })
	t.Run("rpm", func(t *testing.T) { installRPM(t, one(t, filepath.Join(first, "*.rpm"))) })
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func install(t *testing.T, release, public string) {
	prefix := t.TempDir()
	script := filepath.Join(release, "install.sh")
	out, ok := run("sh", script, "--key", public, "--prefix", prefix)
	if !ok || !strings.Contains(out, "sealer 0.") {
		t.Fatalf("install: %s", out)
	}
	for _, name := range []string{"bin/sealer", "share/man/man1/sealer-build.1.gz", "share/bash-completion/completions/sealer"} {
		if _, err := os.Stat(filepath.Join(prefix, name)); err != nil {
			t.Error(err)
		}
	}
	_, stranger := keys(t)
	refused := func(name, want string, args ...string) {
		t.Helper()
		elsewhere := t.TempDir()
		out, ok := run("sh", append([]string{script, "--prefix", elsewhere}, args...)...)
		if ok || !strings.Contains(out, want) {
			t.Errorf("%s: %s", name, out)
		}
		if left, _ := os.ReadDir(elsewhere); len(left) > 0 {
			t.Errorf("%s: installed %v", name, left)
		}
	}
	refused("another key", "not signed by", "--key", stranger)
	refused("no key", "usage", "--from", release)
	refused("no files", "not in", "--from", t.TempDir(), "--key", public)

	// An archive that was changed on its way, then a list that was changed with it.
	changed := t.TempDir()
	if out, ok := run("cp", "-r", release+"/.", changed); !ok {
		t.Fatal(out)
	}
	archive := one(t, filepath.Join(changed, "*_linux_*.tar.gz"))
	bytes := append(read(t, archive), 0)
	write(t, archive, bytes)
	refused("changed archive", "checksum", "--from", changed, "--key", public)
	write(t, filepath.Join(changed, "SHA256SUMS"), append(read(t, filepath.Join(changed, "SHA256SUMS")), '\n'))
	refused("changed list", "not signed by", "--from", changed, "--key", public)
}

func inventory(t *testing.T, release string) {
	var d spdxDocument
	if err := json.Unmarshal(read(t, one(t, filepath.Join(release, "*.spdx.json"))), &d); err != nil {
		t.Fatal(err)
	}
	licences := map[string]string{}
	for _, p := range d.Packages {
		licences[p.Name] = p.Declared
	}
	for name, want := range map[string]string{
		"sealer": "Apache-2.0", "go": "BSD-3-Clause", "helm.sh/helm/v3": "Apache-2.0", "golang.org/x/sys": "BSD-3-Clause", "github.com/BurntSushi/toml": "MIT",
	} {
		if licences[name] != want {
			t.Errorf("licence of %s: %q, want %q", name, licences[name], want)
		}
	}
	if len(d.Relationships) != len(d.Packages) {
		t.Errorf("%d relationships of %d packages", len(d.Relationships), len(d.Packages))
	}
}

func packages(t *testing.T, release string) {
	wanted := []string{
		"/usr/bin/sealer", "/usr/lib/systemd/system/sealer-registry@.service", "/usr/share/man/man1/sealer.1.gz",
		"/usr/share/bash-completion/completions/sealer", "/usr/share/doc/sealer/LICENSE", "/etc/sealer/registry",
	}
	for format, list := range map[string][]string{"deb": {"dpkg-deb", "-c"}, "rpm": {"rpm", "-qpl"}} {
		file := one(t, filepath.Join(release, "*."+format))
		if _, err := exec.LookPath(list[0]); err != nil {
			t.Logf("%s is not here: the content of the %s was not listed", list[0], format)
			continue
		}
		out, ok := run(list[0], append(list[1:], file)...)
		if !ok {
			t.Errorf("%s: %s", file, out)
		}
		for _, w := range wanted {
			if !strings.Contains(out, w) {
				t.Errorf("%s lacks %s:\n%s", file, w, out)
			}
		}
	}
}

// TestAction runs the steps of action.yml on a context, beside a program that is
// compiled already.
func TestAction(t *testing.T) {
	source := t.TempDir()
	if out, ok := run("go", "-C", "..", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(source, "bin/sealer"), "./cmd/sealer"); !ok {
		t.Fatal(out)
	}
	if err := os.CopyFS(filepath.Join(source, "release/files"), os.DirFS("files")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "Kubefile"), []byte("FROM scratch\nCOPY app.yaml .\nCMD kubectl apply -f app.yaml\n"))
	write(t, filepath.Join(dir, "app.yaml"), []byte("kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"))
	action := func(env ...string) (string, bool) {
		c := exec.Command("bash", "files/action.sh")
		c.Env = append([]string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SEALER_ROOT=" + filepath.Join(dir, "store"), "GITHUB_OUTPUT=" + filepath.Join(dir, "output"),
			"ACTION_SOURCE=" + source, "ACTION_CONTEXT=" + dir, "ACTION_TAG=local.example/app:v1",
		}, env...)
		b, err := c.CombinedOutput()
		return string(b), err == nil
	}
	if out, ok := action("ACTION_PLATFORMS=linux/amd64,linux/arm64", "ACTION_ARGUMENTS=--label team=a"); !ok {
		t.Fatal(out)
	}
	if got := string(read(t, filepath.Join(dir, "output"))); !strings.HasPrefix(got, "digest=sha256:") || strings.Count(got, "\n") != 1 {
		t.Errorf("output: %q", got)
	}
	for want, env := range map[string]string{
		"needs \"key\"":      "ACTION_FROM=/nowhere",
		"needs \"registry\"": "ACTION_USERNAME=ci",
		"no such file":       "ACTION_CONTEXT=/nowhere",
		"unknown flag":       "ACTION_ARGUMENTS=--no-such-flag",
	} {
		if out, ok := action(env); ok || !strings.Contains(out, want) {
			t.Errorf("%s: %s", env, out)
		}
	}
}
