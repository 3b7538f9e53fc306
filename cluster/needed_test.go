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
	}{
		{[]string{"kubeadm.init", "before", "kubeadm.admit", "kubeadm.join", "after"}, []string{"kubeadm.init", "kubeadm.admit", "kubeadm.join"}},
		{[]string{"before", "kubeadm.admit", "kubeadm.join", "after"}, []string{"before", "kubeadm.admit", "kubeadm.join", "after"}},
		{[]string{"before", "kubeadm.admit", "after"}, nil},
		{[]string{"kubeadm.init", "before", "kubeadm.admit", "after"}, []string{"kubeadm.init"}},
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
		for _, s := range needed(p).Steps {
			got = append(got, s.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v is needed, want %v", c.kinds, got, c.want)
		}
	}
}
