package extend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

func TestPhases(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Phase{
		"PreInit": PreInit, "pre-init-host": PreInit, "PostInstall": PostInstall, "post-install": AfterInstall, "PreInstall": PreInstall,
		"pre-install": PreInstall, "pre-scaleup": PreJoin, "PreJoin": PreJoin, "post-clean-host": PostClean, "Originally": Originally, "upgrade": Upgrade,
	} {
		if got, err := ParsePhase(name); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := ParsePhase("preinit"); err == nil || !strings.Contains(err.Error(), `write "PreInit"`) {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, m := range Moments() {
		for _, n := range append([]string{string(m.Phase)}, m.Names...) {
			if seen[n] {
				t.Errorf("%s stands twice", n)
			}
			seen[n] = true
		}
	}
}

const shell = "apiVersion: sealer.io/v1\nkind: Plugin\nmetadata: {name: %s}\nspec: {type: SHELL, action: PreInit, data: %s}\n"

func TestLoad(t *testing.T) {
	t.Parallel()
	s, err := Load(fstest.MapFS{
		"plugins/a.yaml":     {Data: fmt.Appendf(nil, shell, "a", "x")},
		"plugin/b.yml":       {Data: fmt.Appendf(nil, shell+"---\n"+shell, "b", "y", "a", "x")},
		"plugins/list_nodes": {Mode: 0o755}, "plugins/old.so": {}, "plugins/README": {}, "plugin/empty.yaml": {},
		"etc/c.yaml": {Data: fmt.Appendf(nil, shell, "c", "x")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range s.Plugins {
		names = append(names, p.Name)
	}
	if d := cmp.Diff([]string{"a", "b"}, names); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"plugins/list_nodes", "plugins/old.so"}, s.Programs); d != "" {
		t.Error(d)
	}
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "plugin/empty.yaml") {
		t.Error(s.Warnings)
	}
	if s, err := Load(fstest.MapFS{}); err != nil || len(s.Plugins) != 0 {
		t.Error(s, err)
	}
}

func TestLoadFaults(t *testing.T) {
	t.Parallel()
	_, err := Load(fstest.MapFS{
		"plugins/a.yaml": {Data: fmt.Appendf(nil, shell, "a", "x")},
		"plugins/b.yaml": {Data: fmt.Appendf(nil, shell, "a", "other")},
		"plugins/c.yaml": {Data: []byte("kind: Plugni\n")},
		"plugins/d.yaml": {Data: make([]byte, maxDocument+1)},
	})
	for _, want := range []string{`plugins/b.yaml: another plugin is called "a" in plugins/a.yaml`, `plugins/c.yaml:1: unknown kind "Plugni"`, "plugins/d.yaml: larger than"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	got := Over([]spec.Plugin{{Name: "z"}, {Name: "b", Data: "mine"}}, []spec.Plugin{{Name: "b", Data: "image"}, {Name: "a"}})
	if d := cmp.Diff([]spec.Plugin{{Name: "a"}, {Name: "b", Data: "mine"}, {Name: "z"}}, got); d != "" {
		t.Error(d)
	}
}

func nodes(t *testing.T) []spec.Node {
	t.Helper()
	c := spec.Cluster{Hosts: []spec.Host{
		{IPs: []string{"10.0.0.1-10.0.0.2"}, Roles: []string{"master"}, Labels: map[string]string{"zone": "a"}},
		{IPs: []string{"10.0.0.3"}, Roles: []string{"node", "gpu"}, Labels: map[string]string{"zone": "b"}},
	}}
	n, err := c.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// summary is a line for each work.
func summary(all []Work) []string {
	var out []string
	for _, w := range all {
		host := "here"
		if w.Host.IsValid() {
			host = w.Host.String()
		}
		b, _ := json.Marshal(map[bool]any{w.Script != nil: w.Script, w.Labels != nil: w.Labels, w.Etcd != nil: w.Etcd, w.Check != nil: w.Check,
			w.Exec != nil: w.Exec, w.Preflight != nil: w.Preflight, w.Hostname != "": w.Hostname}[true])
		out = append(out, fmt.Sprintf("%s %s %s %s", w.Phase, host, w.Plugin, b))
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	all := nodes(t)
	program := map[string]string{"LIST_NODE": "plugins/list_nodes"}
	for _, c := range []struct {
		name  string
		p     spec.Plugin
		nodes []spec.Node
		want  []string
	}{
		{"shell on all", spec.Plugin{Type: "SHELL", Action: "Originally", Data: "x"}, all, []string{
			`Originally 10.0.0.1 p {"Run":"x","InRootfs":false,"Kube":false}`, `Originally 10.0.0.2 p {"Run":"x","InRootfs":false,"Kube":false}`,
			`Originally 10.0.0.3 p {"Run":"x","InRootfs":false,"Kube":false}`}},
		{"shell on the first", spec.Plugin{Type: "shell", Action: "PostInstall", Data: "x"}, all, []string{`PostInstall 10.0.0.1 p {"Run":"x","InRootfs":true,"Kube":true}`}},
		{"two phases in order", spec.Plugin{Type: "SHELL", Action: "PostInstall|pre-install", Data: "x"}, all, []string{
			`pre-install 10.0.0.1 p {"Run":"x","InRootfs":true,"Kube":false}`, `PostInstall 10.0.0.1 p {"Run":"x","InRootfs":true,"Kube":true}`}},
		{"shell by role", spec.Plugin{Type: "SHELL", Action: "PreInit", On: "role=node", Data: "x"}, all, []string{`PreInit 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"shell by role label", spec.Plugin{Type: "SHELL", Action: "PreInit", On: "node-role.kubernetes.io/gpu=", Data: "x"}, all, []string{`PreInit 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"shell by label", spec.Plugin{Type: "SHELL", Action: "PreGuest", On: "zone=b", Data: "x"}, all, []string{`PreGuest 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"shell by address", spec.Plugin{Type: "SHELL", Action: "PreGuest", On: "10.0.0.2-10.0.0.3", Data: "x"}, all, []string{
			`PreGuest 10.0.0.2 p {"Run":"x","InRootfs":true,"Kube":true}`, `PreGuest 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"shell by scope", spec.Plugin{Type: "SHELL", Action: "pre-init-host", Scope: "master0|gpu", Data: "x"}, all, []string{
			`PreInit 10.0.0.1 p {"Run":"x","InRootfs":true,"Kube":false}`, `PreInit 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"only those that join", spec.Plugin{Type: "SHELL", Action: "PreInit", Data: "x"}, all[2:], []string{`PreInit 10.0.0.3 p {"Run":"x","InRootfs":true,"Kube":false}`}},
		{"hostname", spec.Plugin{Type: "HOSTNAME", Data: "# names\n10.0.0.1 m1\n10.0.0.3 n1\n"}, all, []string{`Originally 10.0.0.1 p "m1"`, `Originally 10.0.0.3 p "n1"`}},
		{"label", spec.Plugin{Type: "LABEL", Action: "PreGuest", Data: "10.0.0.1,10.0.0.3 ssd=true,old-\n10.0.0.1 a="}, all, []string{
			`PreGuest 10.0.0.1 p {"Set":{"a":"","ssd":"true"},"Remove":["old"],"Taints":null}`, `PreGuest 10.0.0.3 p {"Set":{"ssd":"true"},"Remove":["old"],"Taints":null}`}},
		{"taint", spec.Plugin{Type: "Taint", Data: "10.0.0.3 a=b:NoSchedule c-"}, all, []string{
			`PreGuest 10.0.0.3 p {"Set":{},"Remove":null,"Taints":[{"Key":"a","Value":"b","Effect":"NoSchedule","Remove":false},{"Key":"c","Value":"","Effect":"","Remove":true}]}`}},
		{"etcd", spec.Plugin{Type: "ETCD", On: "/backup/", Data: "snap.db"}, all, []string{`PostInstall 10.0.0.1 p {"Dir":"/backup","Name":"snap.db"}`}},
		{"check", spec.Plugin{Type: "CLUSTERCHECK", Data: "1m"}, all, []string{`PreGuest here p {"Timeout":60000000000}`}},
		{"preflight", spec.Plugin{Type: "PREFLIGHT", Data: "skip:\n- {check: swap, reason: known}\n"}, all, []string{`Originally here p {"skip":[{"check":"swap","reason":"known"}]}`}},
		{"program", spec.Plugin{Type: "LIST_NODE", Action: "PostInstall"}, all, []string{
			`PostInstall 10.0.0.1 p {"Program":"plugins/list_nodes","Plugin":{"name":"p","type":"LIST_NODE","action":"PostInstall"}}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.p.Name = "p"
			got, err := Plan([]spec.Plugin{c.p}, all, c.nodes, program, Originally, PreInstall, PreInit, PreGuest, PostInstall)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, summary(got)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestPlanFaults(t *testing.T) {
	t.Parallel()
	all := nodes(t)
	for _, c := range []struct {
		p    spec.Plugin
		want string
	}{
		{spec.Plugin{Type: "SHEL", Action: "PreInit"}, `unknown type "SHEL": built in are SHELL`},
		{spec.Plugin{Type: "SHELL", Data: "x"}, "action is missing"},
		{spec.Plugin{Type: "SHELL", Action: "PreInit"}, "data is empty"},
		{spec.Plugin{Type: "SHELL", Action: "PreInti", Data: "x"}, `unknown phase "PreInti"`},
		{spec.Plugin{Type: "SHELL", Action: "PreInit", Data: "x", On: "10.0.0.300"}, "is no address"},
		{spec.Plugin{Type: "SHELL", Action: "PreInit", Data: "x", On: "10.9.9.9"}, `no host of the cluster is meant by "10.9.9.9"`},
		{spec.Plugin{Type: "SHELL", Action: "PreInit", Data: "x", On: "a b=c"}, "is no address, role or label"},
		{spec.Plugin{Type: "MINE", Action: "Originally"}, "a program lies in the rootfs"},
		{spec.Plugin{Type: "HOSTNAME", Data: "10.0.0.1"}, "data line 1: write ADDRESS"},
		{spec.Plugin{Type: "HOSTNAME", Data: "\n10.9.9.9 a"}, "data line 2: 10.9.9.9 is no host of the cluster"},
		{spec.Plugin{Type: "HOSTNAME", Data: "10.0.0.1 A_B"}, "cannot be a host's name"},
		{spec.Plugin{Type: "HOSTNAME", Data: "10.0.0.1-10.0.0.2 a"}, `the name "a" stands twice`},
		{spec.Plugin{Type: "HOSTNAME", Action: "PostInstall", Data: "10.0.0.1 a"}, "cannot change its name later"},
		{spec.Plugin{Type: "LABEL", Data: "10.0.0.1 a"}, `"a" is no label`},
		{spec.Plugin{Type: "LABEL", Data: "10.0.0.1 a=b c"}, `"c" is no label`},
		{spec.Plugin{Type: "LABEL", Action: "PreInit", Data: "10.0.0.1 a=b"}, "there are no nodes at that phase"},
		{spec.Plugin{Type: "TAINT", Data: "10.0.0.1 a=b"}, "has no effect"},
		{spec.Plugin{Type: "ETCD", On: "10.0.0.3"}, "10.0.0.3 is no master"},
		{spec.Plugin{Type: "ETCD", Data: "../x"}, "cannot be the name of a snapshot"},
		{spec.Plugin{Type: "CLUSTERCHECK", Data: "soon"}, "is no time to wait"},
		{spec.Plugin{Type: "PREFLIGHT", Data: "skp: []"}, `unknown field "skp" in spec: did you mean "skip"?`},
	} {
		c.p.Name = "p"
		if err := Validate([]spec.Plugin{c.p}, all, map[string]string{"MINE": "plugins/mine"}); err == nil || !strings.HasPrefix(err.Error(), "plugin p: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.p, err, c.want)
		}
	}
	err := Validate([]spec.Plugin{{Name: "a", Type: "X"}, {Name: "b", Type: "SHELL"}}, all, nil)
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("not all faults: %v", err)
	}
}

// program writes a shell script.
func program(t *testing.T, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRunner(t *testing.T) {
	t.Parallel()
	var log []string
	r := Runner{Log: func(l string) { log = append(log, l) }, Env: []string{"X=y"}}
	p := program(t, "p", `cat >"$(dirname "$0")/in"; echo one >&2; printf two >&2; echo '{"changes":["'$X'"]}'`)
	res, err := r.Run(t.Context(), p, Request{
		Phase: PreInit, Plugin: &spec.Plugin{Name: "n"}, Hosts: []string{"10.0.0.1"},
		Cluster: &spec.Cluster{SSH: spec.SSH{Passwd: spec.NewSecret("hunter2")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"y"}, res.Changes); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"one", "two"}, log); d != "" {
		t.Error(d)
	}
	in, _ := os.ReadFile(filepath.Join(filepath.Dir(p), "in"))
	want := `{"apiVersion":"sealer.io/plugin/v1","op":"run","phase":"PreInit","plugin":{"name":"n","type":""},"cluster":{"ssh":{"passwd":"${redacted}"}},"hosts":["10.0.0.1"]}` + "\n"
	if string(in) != want {
		t.Errorf("%s", in)
	}
}

func TestRunnerFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script, want string
		is                 error
	}{
		{"reported", `echo '{"error":"no nodes"}'`, "plugin p: the plugin reports: no nodes", ErrPlugin},
		{"exit", `echo first >&2; echo why >&2; exit 7`, "exit status 7: first | why", nil},
		{"no json", `echo hello`, "is no JSON object (lines for people belong on stderr)", nil},
		{"two objects", `echo '{} {}'`, "more than one JSON object", nil},
		{"nothing", `true`, "is no JSON object", nil},
		{"too much", `head -c 2000000 /dev/zero`, "larger than 1048576 bytes", nil},
		{"hangs", `echo '{}'; echo waiting >&2; sleep 100 & sleep 100`, "did not end in time: 300ms: waiting", ErrTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Runner{}
			if c.is == ErrTimeout {
				r.Timeout = 300 * time.Millisecond
			}
			_, err := r.Run(t.Context(), program(t, "p", c.script), Request{})
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Runner{}).Run(ctx, program(t, "p", "sleep 100"), Request{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := (Runner{}).Describe(t.Context(), program(t, "p", "echo '{}'")); err == nil || !strings.Contains(err.Error(), "names no type") {
		t.Error(err)
	}
}

func TestSoNeedsItsHost(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Runner{}.Run(t.Context(), "/x/old.so", Request{})
	if err == nil || !strings.Contains(err.Error(), "sealer plugin build FILE.go") {
		t.Error(err)
	}
	t.Setenv("PATH", "/usr/bin:/bin")
	host := program(t, "sealer-sohost", `echo '{"changes":["'$1'"]}'`)
	res, err := Runner{SoHost: host}.Run(t.Context(), "/x/old.so", Request{})
	if err != nil || !cmp.Equal(res.Changes, []string{"/x/old.so"}) {
		t.Errorf("%v, %v", res, err)
	}
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	files := []string{"plugins/label", "plugins/list_nodes", "plugins/list_nodes.so", "plugins/old.so"}
	got := Programs([]spec.Plugin{
		{Name: "list_nodes.so", Type: "LIST_NODE"}, {Name: "old.so", Type: "OLD"}, {Name: "label", Type: "MINE"}, {Name: "none", Type: "NONE"}, {Name: "s", Type: "SHELL"},
	}, files)
	want := map[string]string{"LIST_NODE": "plugins/list_nodes", "OLD": "plugins/old.so", "MINE": "plugins/label"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
