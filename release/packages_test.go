//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool reports whether a program is there to try a package with. Root is needed
// to own the files. With SEALER_REQUIRE_TOOLS its absence is a failure.
func tool(t *testing.T, name string) bool {
	t.Helper()
	_, err := exec.LookPath(name)
	switch {
	case err == nil && os.Geteuid() == 0:
		return true
	case err == nil:
		t.Logf("%s: not tried: root is needed", name)
	case os.Getenv("SEALER_REQUIRE_TOOLS") != "":
		t.Error(err)
	default:
		t.Logf("%s is not here: not tried", name)
	}
	return false
}

// installed checks the files of an installed package below root, and runs the
// program.
func installed(t *testing.T, root string) {
	t.Helper()
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/sealer": 0o755, "usr/lib/systemd/system/sealer-registry@.service": 0o644, "usr/share/man/man1/sealer.1.gz": 0o644,
		"usr/share/bash-completion/completions/sealer": 0o644, "etc/sealer/registry": fs.ModeDir | 0o755,
	} {
		fi, err := os.Stat(filepath.Join(root, name))
		if err != nil || fi.Mode() != mode {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	if out, ok := run(filepath.Join(root, "usr/bin/sealer"), "version"); !ok || !strings.HasPrefix(out, "sealer 0.") {
		t.Errorf("sealer version: %s", out)
	}
}

// installDeb installs the .deb into a root of its own, and removes it again.
func installDeb(t *testing.T, file string) {
	if !tool(t, "dpkg") {
		return
	}
	root := t.TempDir()
	for _, dir := range []string{"updates", "info", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), nil)
	dpkg := func(args ...string) {
		t.Helper()
		if out, ok := run("dpkg", append([]string{"--root=" + root, "--log=/dev/null"}, args...)...); !ok {
			t.Fatalf("dpkg %v: %s", args, out)
		}
	}
	dpkg("--install", file)
	installed(t, root)
	unit(t, root)
	dpkg("--verify", "sealer")
	dpkg("--purge", "sealer")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/sealer")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program stays after a purge: %v", err)
	}
}

// unit lets systemd check the unit, with the program where it lies now.
func unit(t *testing.T, root string) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Logf("systemd-analyze is not here: the unit was not checked")
		return
	}
	text := string(read(t, filepath.Join(root, "usr/lib/systemd/system/sealer-registry@.service")))
	if !strings.Contains(text, "/usr/bin/sealer") {
		t.Errorf("the unit does not start the program:\n%s", text)
	}
	name := filepath.Join(t.TempDir(), "sealer-registry@my-app.service")
	write(t, name, []byte(strings.ReplaceAll(text, "/usr/bin/sealer", filepath.Join(root, "usr/bin/sealer"))))
	out, ok := run("systemd-analyze", "verify", "--man=no", name)
	if !ok || strings.Contains(out, "sealer-registry@") {
		t.Errorf("systemd-analyze verify: %s", out)
	}
}

// installRPM installs the .rpm into a root of its own, and removes it again.
func installRPM(t *testing.T, file string) {
	if !tool(t, "rpm") {
		return
	}
	root := t.TempDir()
	rpm := func(args ...string) {
		t.Helper()
		if out, ok := run("rpm", append([]string{"--root", root}, args...)...); !ok {
			t.Fatalf("rpm %v: %s", args, out)
		}
	}
	rpm("--initdb")
	rpm("--install", "--nodeps", "--nosignature", file)
	installed(t, root)
	rpm("--verify", "--nodeps", "sealer")
	rpm("--erase", "sealer")
	if _, err := os.Stat(filepath.Join(root, "usr/bin/sealer")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program stays after its package: %v", err)
	}
}
