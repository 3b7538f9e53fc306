package node_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// withProgram puts a script into the rootfs g1 and returns that.
func withProgram(t *testing.T, m *node.Machine, name, script string) string {
	t.Helper()
	dir := filepath.Join(m.Dir(), "rootfs", "g1")
	file := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("#!/bin/sh\n"+script+"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestPluginRunsOnceInItsRootfs(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	dir := withProgram(t, m, "plugins/list", `cat >request; echo "$PATH" >path; echo running >&2; echo '{"changes":["one"]}'`)
	req, err := extend.NewRequest(spec.Plugin{Name: "list", Type: "L"}, extend.PostInstall, spec.Cluster{Name: "c1", Env: []string{"PW=x"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(req)
	s := step(t, "plugin", plan.PluginArgs{Program: "plugins/list", Phase: extend.PostInstall, Plugin: *req.Plugin, Generation: "g1", Kube: true})
	var log []string
	order := node.Order{Step: s, Secrets: map[string]string{plan.SecretRequest: string(b)}, Log: func(l string) { log = append(log, l) }}
	if _, err := m.Run(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log, ","); got != "running,one" {
		t.Error(got)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "request"))
	for _, want := range []string{`"op":"run"`, `"phase":"PostInstall"`, `"rootfs":"` + dir + `"`, `/etc/kubernetes/admin.conf"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if path, _ := os.ReadFile(filepath.Join(dir, "path")); !strings.HasPrefix(string(path), filepath.Join(dir, "bin")+":") {
		t.Errorf("PATH %s", path)
	}
	if r, err := m.Run(t.Context(), order); err != nil || !r.Skipped {
		t.Errorf("again: %+v, %v", r, err)
	}
	for _, r := range m.Journal.Records() {
		if strings.Contains(string(r.Args), "PW=x") {
			t.Error("the journal holds the environment")
		}
	}
}

func TestPluginThatReportsAnError(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	withProgram(t, m, "p", `echo '{"error":"no disk"}'`)
	s := step(t, "plugin", plan.PluginArgs{Program: "p", Generation: "g1", Plugin: spec.Plugin{Name: "p"}})
	_, err := m.Run(t.Context(), node.Order{Step: s, Secrets: map[string]string{plan.SecretRequest: "{}"}, Log: func(string) {}})
	if err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Error(err)
	}
}

func TestScriptsGetTheEnvironment(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	s := step(t, "guest", plan.ScriptArgs{Run: `echo "$A/$B/$C" >here`, Env: map[string]string{"A": "image", "B": "image"}})
	order := node.Order{Step: s, Secrets: map[string]string{plan.SecretEnv: "B=x y\x00C=pass=word"}, Log: func(string) {}}
	if _, err := m.Run(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(filepath.Join(m.Root, "here")); string(got) != "image/x y/pass=word\n" {
		t.Errorf("%q", got)
	}
}

func TestScriptBeforeTheRootfs(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	s := step(t, "script", plan.ScriptArgs{Run: "pwd >here; echo \"[$ROOTFS]\" >>here"})
	if _, err := m.Run(t.Context(), node.Order{Step: s, Log: func(string) {}}); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(m.Root, "here"))
	if want := strings.TrimSuffix(m.Root, "/") + "\n[]\n"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}
