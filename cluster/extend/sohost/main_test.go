package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// build compiles with cgo; flags as the user's.
func build(t *testing.T, dir, out string, flags ...string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false"}, flags...), "-o", out, ".")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=1")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

const body = `{"op":"OP","phase":"PHASE","plugin":{"name":"p","data":"d"},"cluster":{"name":"prod","hosts":[{"ips":["10.0.0.1"],"roles":["master"]}]},"hosts":["10.0.0.2"]}`

func ask(t *testing.T, host, so, op, phase string) (answer, log string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(host, so)
	cmd.Stdin = strings.NewReader(strings.NewReplacer("OP", op, "PHASE", phase).Replace(body))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), stderr.String()
}

func TestHost(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("cgo needs a C compiler")
	}
	dir := t.TempDir()
	host := filepath.Join(dir, "sealer-sohost")
	build(t, ".", host)
	for _, name := range []string{"run", "exec", "none"} {
		build(t, "testdata/"+name, filepath.Join(dir, name+".so"), "-buildmode=plugin")
	}
	build(t, "testdata/run", filepath.Join(dir, "trim.so"), "-buildmode=plugin", "-trimpath")
	for _, c := range []struct{ so, op, phase, want, log string }{
		{"run.so", "describe", "", `{"type":"LIST_NODE"}`, ""},
		{"run.so", "run", "PostInstall", `{"error":"PostInstall p d prod 10.0.0.1 10.0.0.2"}`, "printed\n"},
		{"run.so", "run", "panic", `{"error":"panic: as asked"}`, ""},
		{"run.so", "fly", "", `{"error":"unknown operation \"fly\""}`, ""},
		{"exec.so", "describe", "", `{"type":"GOLANG"}`, ""},
		{"exec.so", "run", "", `{"error":"10.0.0.1"}`, ""},
		{"none.so", "describe", "", "has no variable Plugin", ""},
		{"trim.so", "describe", "", "the file was built by go", ""},
		{"trim.so", "describe", "", "-trimpath=true", ""},
		{"trim.so", "describe", "", "sealer plugin build FILE.go -o NAME", ""},
		{"missing.so", "describe", "", "missing.so", ""},
	} {
		answer, log := ask(t, host, filepath.Join(dir, c.so), c.op, c.phase)
		if !strings.Contains(answer, c.want) || log != c.log {
			t.Errorf("%s %s %s: %s %q, want %s", c.so, c.op, c.phase, answer, log, c.want)
		}
	}
}

func TestHostWithoutCgo(t *testing.T) {
	host := filepath.Join(t.TempDir(), "sealer-sohost")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", host, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if answer, _ := ask(t, host, "x.so", "describe", ""); !strings.Contains(answer, "built without cgo") {
		t.Error(answer)
	}
}
