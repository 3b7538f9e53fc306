package cluster

import (
	"slices"
	"testing"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/plan"
)

// Plugins of joining work when machines join a cluster that runs, and never else.
func TestNeeded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kinds, want []string
		owed        map[string]bool // by a run that died after the machines had joined
	}{
		{[]string{"kubeadm.init", "before", "kubeadm.admit", "kubeadm.join", "after"}, []string{"kubeadm.init", "kubeadm.admit", "kubeadm.join"}, nil},
		{[]string{"before", "kubeadm.admit", "kubeadm.join", "after"}, []string{"before", "kubeadm.admit", "kubeadm.join", "after"}, nil},
		{[]string{"before", "kubeadm.admit", "after"}, nil, nil},
		{[]string{"kubeadm.admit", "after"}, []string{"after"}, map[string]bool{"after": true}},
		{[]string{"kubeadm.init", "before", "kubeadm.admit", "after"}, []string{"kubeadm.init"}, nil},
	} {
		p := &plan.Plan{}
		for _, k := range c.kinds {
			s := plan.Step{ID: k, Kind: k}
			switch k {
			case "before":
				s.Phase = extend.PreJoin
			case "after":
				s.Phase = extend.PostJoin
			}
			p.Steps = append(p.Steps, s)
		}
		var got []string
		for _, s := range needed(p, c.owed).Steps {
			got = append(got, s.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v is needed, want %v", c.kinds, got, c.want)
		}
	}
}

// A wait is left when something before it is, but not for the sake of steps that
// are not wanted.
func TestRemaining(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Steps: []plan.Step{
		{ID: "unit", Kind: "unit"},
		{ID: "admit", Kind: "kubeadm.admit", Needs: []string{"unit"}},
		{ID: "known", Kind: "kube.wait", Needs: []string{"admit"}},
		{ID: "guest", Kind: "guest", Needs: []string{"known"}},
		{ID: "ready", Kind: "kube.wait", After: []string{"guest"}},
	}}
	for _, c := range []struct{ done, want []string }{
		{[]string{"unit", "known", "guest", "ready"}, nil},
		{[]string{"known", "guest", "ready"}, []string{"unit", "known", "ready"}},
		{[]string{"unit", "known", "ready"}, []string{"guest", "ready"}},
	} {
		done := map[string]bool{}
		for _, id := range c.done {
			done[id] = true
		}
		r := remaining(p, done, nil)
		var got []string
		for _, s := range r.Steps {
			got = append(got, s.ID)
		}
		if !slices.Equal(got, c.want) || r.Done > len(c.done) {
			t.Errorf("done %v: %v are left, want %v; %d counted", c.done, got, c.want, r.Done)
		}
	}
}
