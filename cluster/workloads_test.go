package cluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

func TestWorkloads(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: sealer.io/v2\nkind: Cluster\nmetadata: {name: c}\nspec:\n  hosts:\n"
	const init = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {taints: []}\n"
	const proxy = "---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nnodeRegistration: {name: a}\n"
	for name, c := range map[string]struct {
		file string
		want []bool
	}{
		"one master":               {head + "  - {ips: [10.0.0.1], roles: [master]}\n", []bool{true}},
		"masters alone":            {head + "  - {ips: [10.0.0.1-10.0.0.2], roles: [master]}\n", []bool{true, true}},
		"a worker":                 {head + "  - {ips: [10.0.0.1], roles: [master]}\n  - {ips: [10.0.0.2], roles: [node]}\n", []bool{false, true}},
		"one that works":           {head + "  - {ips: [10.0.0.1], roles: [master]}\n  - {ips: [10.0.0.2], roles: [master, node]}\n", []bool{false, true}},
		"the Clusterfile's taint":  {head + "  - {ips: [10.0.0.1], roles: [master], taints: ['node-role.kubernetes.io/control-plane:NoSchedule']}\n", []bool{false}},
		"another taint":            {head + "  - {ips: [10.0.0.1], roles: [master], taints: ['disk=slow:PreferNoSchedule']}\n", []bool{true}},
		"taints of kubeadm":        {head + "  - {ips: [10.0.0.1], roles: [master]}\n" + init, []bool{false}},
		"kubeadm without a taint ": {head + "  - {ips: [10.0.0.1], roles: [master]}\n" + proxy, []bool{true}},
	} {
		f, err := spec.Parse("Clusterfile", []byte(c.file))
		if err != nil {
			t.Fatal(name, err)
		}
		nodes, err := f.Cluster.Nodes()
		if err != nil {
			t.Fatal(name, err)
		}
		var got []bool
		for _, n := range workloads(nodes, f.Kubeadm) {
			got = append(got, n.Worker())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
