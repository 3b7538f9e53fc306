package cli

import (
	"testing"

	"github.com/clusterimage/sealer/cluster/spec"
)

// The login of join is that of the machines that come; one that is there keeps
// its own, also when it is named again.
func TestAddHosts(t *testing.T) {
	t.Parallel()
	there := spec.Host{IPs: []string{"10.0.0.1"}, Roles: []string{spec.RoleMaster}}
	f := &spec.File{Cluster: spec.Cluster{Name: "c", SSH: spec.SSH{User: "root", Pk: "/old"}, Hosts: []spec.Host{there}}}
	comes := spec.Host{IPs: []string{"10.0.0.2"}, Roles: []string{spec.RoleNode}}
	addHosts(f, []spec.Host{comes, there}, spec.SSH{User: "ops", Pk: "/new", Port: 2222})
	nodes, err := f.Cluster.Nodes()
	if err != nil || len(nodes) != 2 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i, want := range []spec.SSH{{User: "root", Pk: "/old"}, {User: "ops", Pk: "/new", Port: 2222}} {
		got := nodes[i].SSH
		if got.User != want.User || got.Pk != want.Pk || want.Port != 0 && got.Port != want.Port {
			t.Errorf("%s: user %s, key %s, port %d", nodes[i].Address, got.User, got.Pk, got.Port)
		}
	}
}
