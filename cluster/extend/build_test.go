package extend

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

const listNodes = `package main

import (
	"fmt"

	"github.com/alibaba/sealer/client/k8s"
	"github.com/alibaba/sealer/plugin"
)

type list string

func (l *list) Run(context plugin.Context, phase plugin.Phase) error {
	client, err := k8s.Newk8sClient()
	if err != nil {
		return err
	}
	nodes, err := client.ListNodes()
	if err != nil {
		return fmt.Errorf("nodes not found: %v", err)
	}
	for _, n := range nodes.Items {
		fmt.Println(phase, context.Plugin.Spec.Data, context.Cluster.GetMaster0IP(), n.Name, n.Labels["a"])
	}
	return nil
}

var PluginType = "LIST_NODE"
var Plugin list
`

const labelNodes = `package main

import (
	"github.com/sirupsen/logrus"
	v1 "k8s.io/api/core/v1"

	"github.com/sealerio/sealer/pkg/client/k8s"
	"github.com/sealerio/sealer/pkg/plugin"
)

type labels struct{}

func (labels) Run(context plugin.Context, phase plugin.Phase) error {
	if phase != plugin.PhasePostInstall {
		panic("phase " + string(phase))
	}
	c, err := k8s.Newk8sClient()
	if err != nil {
		return err
	}
	nodes, err := c.ListNodes()
	if err != nil {
		return err
	}
	for _, n := range nodes.Items {
		m := n.GetLabels()
		delete(m, "a")
		m["b"] = "2"
		n.SetLabels(m)
		n.SetResourceVersion("")
		n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "k", Effect: v1.TaintEffectNoSchedule})
		if _, err := c.UpdateNode(n); err != nil {
			return err
		}
		logrus.Infof("labelled %s", n.Name)
	}
	return nil
}

var Plugin labels
var PluginType = "LABEL_TEST_SO"
`

const oldExec = `package main

import (
	"errors"

	v1 "github.com/alibaba/sealer/types/api/v1"
)

type nodes string

func (n *nodes) Exec(cluster *v1.Cluster) error {
	return errors.New(cluster.Name + " " + cluster.Spec.Masters.IPList[0])
}

var Plugin nodes
`

// kubectl is a stand-in that knows one node and keeps what it is told.
const kubectl = `#!/bin/sh
echo "$KUBECONFIG $*" >>"$(dirname "$0")/log"
n='{"kind":"Node","metadata":{"name":"n1","labels":{"a":"1"}},"spec":{"podCIDR":"10.0.0.0/24"}}'
case $2 in nodes) echo '{"items":['"$n"']}' ;; *) echo "$n" ;; esac
`

func buildPlugin(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file, out := filepath.Join(dir, "my plugin.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Build(t.Context(), BuildOptions{File: file, Out: out}); err != nil {
		t.Fatal(err)
	}
	return out
}

// rootfsWithKubectl makes a rootfs that has kubectl only.
func rootfsWithKubectl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func request(t *testing.T, p spec.Plugin, phase Phase) Request {
	t.Helper()
	c := spec.Cluster{Name: "prod", Hosts: []spec.Host{{IPs: []string{"10.0.0.1-10.0.0.2"}, Roles: []string{"master"}}}}
	req, err := NewRequest(p, phase, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestBuild(t *testing.T) {
	t.Parallel()
	program := buildPlugin(t, listNodes)
	var log []string
	r := Runner{Log: func(l string) { log = append(log, l) }}
	d, err := r.Describe(t.Context(), program)
	if err != nil || d.Type != "LIST_NODE" {
		t.Fatal(d, err)
	}
	req := request(t, spec.Plugin{Name: "p", Type: "LIST_NODE", Data: "data"}, PostInstall)
	if _, err := r.Run(t.Context(), program, req); err == nil || !strings.Contains(err.Error(), "there is no cluster at this phase") {
		t.Error(err)
	}
	req.Rootfs, req.Kubeconfig = rootfsWithKubectl(t), "/k"
	if _, err := r.Run(t.Context(), program, req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"PostInstall data 10.0.0.1 n1 1"}, log); diff != "" {
		t.Error(diff)
	}
}

func TestBuildOfSealerio(t *testing.T) {
	t.Parallel()
	program := buildPlugin(t, labelNodes)
	req := request(t, spec.Plugin{Name: "p"}, PostInstall)
	req.Rootfs, req.Kubeconfig = rootfsWithKubectl(t), "/k"
	if _, err := (Runner{}).Run(t.Context(), program, req); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(req.Rootfs, "bin/log"))
	want := `/k get nodes -o json
/k get node n1 -o json
/k patch node n1 --type merge -p {"metadata":{"annotations":{},"labels":{"a":null,"b":"2"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}],"unschedulable":false}} -o json
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	req.Phase = PreInit
	if _, err := (Runner{}).Run(t.Context(), program, req); err == nil || !strings.Contains(err.Error(), "panic: phase PreInit") {
		t.Error(err)
	}
}

func TestBuildOfTheOldestInterface(t *testing.T) {
	t.Parallel()
	program := buildPlugin(t, oldExec)
	if d, err := (Runner{}).Describe(t.Context(), program); err != nil || d.Type != "GOLANG" {
		t.Error(d, err)
	}
	_, err := Runner{}.Run(t.Context(), program, request(t, spec.Plugin{Name: "p"}, PostInstall))
	if err == nil || !strings.Contains(err.Error(), "prod 10.0.0.1") {
		t.Error(err)
	}
}

func TestBuildFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ name, text, want string }{
		{"no go", "package", "p.go:1:"},
		{"not main", "package x\nvar Plugin int\n", "p.go:1:9: package x: a plugin is package main"},
		{"no variable", "package main\n", "there is no variable Plugin"},
		{"main", "package main\nvar Plugin int\nfunc main() {}\n", "p.go:3:1: a plugin has no func main"},
		{"import", "package main\nimport _ \"example.com/x\"\nvar Plugin int\n", `p.go:2:8: import "example.com/x": a plugin is built without a network`},
		{"package of sealer", "package main\nimport _ \"github.com/alibaba/sealer/utils/ssh\"\nvar Plugin int\n", "not this package"},
		{"compiler", "package main\nvar Plugin int = \"x\"\n", "p.go:2:18: cannot use"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sub := filepath.Join(dir, c.name)
			if err := os.Mkdir(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(sub, "p.go")
			if err := os.WriteFile(file, []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			err := Build(t.Context(), BuildOptions{File: file, Out: filepath.Join(sub, "out")})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if entries, _ := os.ReadDir(sub); len(entries) != 1 {
				t.Errorf("left: %v", entries)
			}
		})
	}
	file := filepath.Join(dir, "wrong.go")
	if err := os.WriteFile(file, []byte("package main\nvar Plugin int\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Build(t.Context(), BuildOptions{File: file, Out: filepath.Join(dir, "wrong")}); err != nil {
		t.Fatal(err)
	}
	_, err := Runner{}.Run(t.Context(), filepath.Join(dir, "wrong"), Request{})
	if err == nil || !strings.Contains(err.Error(), "has neither Run(") {
		t.Error(err)
	}
}

func TestBuildNeedsGo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := Build(t.Context(), BuildOptions{File: "x.go", Out: "x"}); err == nil || !strings.Contains(err.Error(), "install Go") {
		t.Error(err)
	}
}
