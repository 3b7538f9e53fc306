package plan_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

func withPlugins(t *testing.T, plugins ...spec.Plugin) *plan.Plan {
	t.Helper()
	w, seen := wanted("master 10.0.0.2", "node 10.0.0.3")
	nodes := []spec.Node{w.Hosts[0].Node, w.Hosts[1].Node}
	var err error
	w.Plugins, err = extend.Plan(plugins, nodes, nodes, extend.Programs(plugins, []string{"plugins/list"}), plan.PluginPhases()...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPluginsGolden(t *testing.T) {
	t.Parallel()
	p := withPlugins(t,
		spec.Plugin{Name: "before", Type: "SHELL", Action: "Originally", Data: "true"},
		spec.Plugin{Name: "check", Type: "CLUSTERCHECK"},
		spec.Plugin{Name: "disk", Type: "SHELL", Action: "PreInit", On: "role=node", Data: "mkfs"},
		spec.Plugin{Name: "done", Type: "SHELL", Action: "PostInstall|pre-install", Data: "echo"},
		spec.Plugin{Name: "labels", Type: "LABEL", Data: "10.0.0.3 disk=ssd,old-"},
		spec.Plugin{Name: "list", Type: "LIST_NODE", Action: "post-install"},
		spec.Plugin{Name: "save", Type: "ETCD", Data: "s.db"},
		spec.Plugin{Name: "taints", Type: "TAINT", Data: "10.0.0.3 a=b:NoSchedule"},
		spec.Plugin{Name: "worker", Type: "SHELL", Action: "post-init-host", Scope: "node", Data: "true"},
	)
	var b bytes.Buffer
	for _, s := range p.Steps { // and the stations between which the plugins stand
		switch s.Kind {
		case "script", "plugin", "rootfs", "kube.wait", "kube.label", "kubeadm.init", "kubeadm.join", "guest", "kube.secret":
			fmt.Fprintf(&b, "%s %s %s: %s\n", s.Host, s.Risk.Sign(), s.Kind, s.Why)
		}
	}
	golden := filepath.Join("testdata", "plugins.txt")
	if *update {
		if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

// of returns the steps whose reason names the plugin.
func of(p *plan.Plan, plugin string) []plan.Step {
	return slices.DeleteFunc(slices.Clone(p.Steps), func(s plan.Step) bool { return !strings.HasPrefix(s.Why, "plugin "+plugin+" ") })
}

// waits says whether the step a waits for b, whether b ends well or not.
func waits(p *plan.Plan, a, b plan.Step) bool {
	reach := map[string]bool{a.ID: true}
	for _, s := range slices.Backward(p.Steps) {
		if reach[s.ID] {
			for _, n := range append(slices.Clone(s.Needs), s.After...) {
				reach[n] = true
			}
		}
	}
	return reach[b.ID]
}

func TestPluginsWaitForTheirPhase(t *testing.T) {
	t.Parallel()
	p := withPlugins(t,
		spec.Plugin{Name: "worker", Type: "SHELL", Action: "PreGuest", On: "role=node", Data: "a"},
		spec.Plugin{Name: "late", Type: "SHELL", Action: "PostInstall", On: "role=node", Data: "b"},
		spec.Plugin{Name: "early", Type: "SHELL", Action: "PreInit", On: "role=node", Data: "c"},
	)
	worker, late, early := of(p, "worker")[0], of(p, "late")[0], of(p, "early")[0]
	guest, join, secret := find(t, p, "guest", "10.0.0.2"), find(t, p, "kubeadm.join", "10.0.0.3"), find(t, p, "kube.secret", "10.0.0.2")
	for _, c := range []struct {
		name string
		a, b plan.Step
	}{
		{"PreGuest is after the join", worker, join}, {"the commands wait for PreGuest", guest, worker},
		{"PostInstall is after the commands", late, guest}, {"the end waits for PostInstall", secret, late}, {"the join waits for PreInit", join, early},
	} {
		if !waits(p, c.a, c.b) {
			t.Error(c.name + ": no")
		}
	}
	if worker.Host != "10.0.0.3" || waits(p, early, join) {
		t.Errorf("%+v", worker)
	}
}
