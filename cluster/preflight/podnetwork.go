package preflight

import (
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
)

// forPods begins the purpose of a port of the pod network. Which of them a
// network uses is a matter of its settings: one that is not reached is a warning.
const forPods = "pod network "

// podPorts are the ports of pod networks, by a part of the path of their image,
// as their documentation lists them for firewalls.
var podPorts = []struct {
	image string
	ports []plan.Port
}{
	{"flannel", []plan.Port{{Network: "udp", Port: 8472, For: forPods + "(VXLAN of Flannel)"}}},
	{"calico/node", []plan.Port{{Network: "tcp", Port: 179, For: forPods + "(BGP of Calico)"}, {Network: "udp", Port: 4789, For: forPods + "(VXLAN of Calico)"}}},
	{"cilium/cilium", []plan.Port{{Network: "udp", Port: 8472, For: forPods + "(VXLAN of Cilium)"}, {Network: "tcp", Port: 4240, For: forPods + "(health of Cilium)"}}},
	{"weave-kube", []plan.Port{{Network: "tcp", Port: 6783, For: forPods + "(Weave)"}, {Network: "udp", Port: 6783, For: forPods + "(Weave)"}, {Network: "udp", Port: 6784, For: forPods + "(Weave)"}}},
	{"antrea", []plan.Port{{Network: "udp", Port: 6081, For: forPods + "(Geneve of Antrea)"}}},
	{"kube-router", []plan.Port{{Network: "tcp", Port: 179, For: forPods + "(BGP of kube-router)"}}},
}

// podNetwork returns the ports of the pod networks that the image brings.
func (in Input) podNetwork() []plan.Port {
	var out []plan.Port
	for _, n := range podPorts {
		for _, r := range in.References {
			if strings.Contains(r, n.image) {
				out = append(out, n.ports...)
				break
			}
		}
	}
	return out
}
