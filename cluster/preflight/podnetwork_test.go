package preflight

import (
	"slices"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/cluster/plan"
)

// The ports of the pod network that is inside are tried between machines, but
// are not listened on by the cluster's own programs, and are warnings.
func TestPodNetwork(t *testing.T) {
	t.Parallel()
	in := Input{References: []string{"docker.io/flannel/flannel:v0.26", "docker.io/flannel/flannel-cni-plugin:v1", "registry.k8s.io/pause:3.10"}}
	n := Node{Address: "a"}
	udp := func(p plan.Port) bool { return p.Network == "udp" }
	reached, from := in.Reached(n)
	i := slices.IndexFunc(reached, udp)
	if i < 0 || reached[i].Port != 8472 || !from(reached[i], "b") || slices.ContainsFunc(reached[i+1:], udp) || slices.ContainsFunc(in.Ports(n), udp) {
		t.Errorf("ports %v", reached)
	}
	n.Ours = true
	if reached, _ = in.Reached(n); slices.ContainsFunc(reached, udp) {
		t.Error("the network of a cluster that runs has the port")
	}
	f := &findings{in: Input{Links: []plan.Link{{From: "a", To: "b", Port: plan.Port{Network: "udp", Port: 8472, For: forPods + "(x)"}, Cause: "no answer"}}}}
	checkMatrix(f)
	if len(f.list) != 1 || f.list[0].level != Warn || !strings.Contains(f.list[0].message, "8472/udp of b, which is for pods") {
		t.Errorf("%+v", f.list)
	}
}
