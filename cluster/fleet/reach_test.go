package fleet

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/spec"
)

func TestTarget(t *testing.T) {
	t.Parallel()
	off := false
	n := spec.Node{Address: netip.MustParseAddr("10.0.0.1"), Name: "m1", SSH: spec.SSH{
		User: "admin", Port: 2222, Pk: "/key", Agent: &off, Passwd: spec.NewSecret("${env:PASS}"),
		Jump: "j@jump.example:2200, [fd00::1]:23,last",
	}}
	sources := spec.Sources{Env: func(name string) (string, bool) { return "of " + name, true }}
	got, err := Target(n, sources)
	if err != nil {
		t.Fatal(err)
	}
	jump := func(user, address string, port int) host.Target {
		return host.Target{Address: address, Port: port, User: user, Password: "of PASS", Keys: []string{"/key"}, NoAgent: true}
	}
	want := jump("admin", "10.0.0.1", 2222)
	want.Name = "m1"
	want.Jump = []host.Target{jump("j", "jump.example", 2200), jump("admin", "fd00::1", 23), jump("admin", "last", 0)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	n.SSH.Jump = "a:b"
	if _, err := Target(n, sources); err == nil || !strings.Contains(err.Error(), "jump host a:b: the port is no number") {
		t.Error(err)
	}
	n.SSH.Passwd, n.SSH.Jump = spec.NewSecret("${env:NONE}"), ""
	if _, err := Target(n, spec.Sources{Env: func(string) (string, bool) { return "", false }}); err == nil {
		t.Error("a secret that is not there is no error")
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	nodes := []spec.Node{
		{Address: netip.MustParseAddr("10.0.0.1"), Roles: []string{"master", "node"}, Name: "a"},
		{Address: netip.MustParseAddr("10.0.0.2"), Roles: []string{"node"}},
		{Address: netip.MustParseAddr("10.0.0.3"), Roles: []string{"node", "gpu"}},
	}
	for name, tt := range map[string]struct {
		roles, hosts []string
		want         string
	}{
		"all":       {want: "10.0.0.1 10.0.0.2 10.0.0.3"},
		"role":      {roles: []string{"master"}, want: "10.0.0.1"},
		"own role":  {roles: []string{"gpu"}, want: "10.0.0.3"},
		"name":      {hosts: []string{"a"}, want: "10.0.0.1"},
		"both":      {roles: []string{"gpu"}, hosts: []string{"10.0.0.1"}, want: "10.0.0.1 10.0.0.3"},
		"no one":    {roles: []string{"etcd"}, want: "no machine with the role etcd"},
		"none such": {hosts: []string{"10.0.0.9"}, want: "no machine with the address or name 10.0.0.9"},
	} {
		got, err := Select(nodes, tt.roles, tt.hosts)
		var words []string
		for _, n := range got {
			words = append(words, n.Address.String())
		}
		text := strings.Join(words, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.HasSuffix(text, tt.want) {
			t.Errorf("%s: %s, want %s", name, text, tt.want)
		}
	}
}

// A machine that does not answer is spared when the caller says so.
func TestReachSpares(t *testing.T) {
	t.Parallel()
	away := spec.Node{Address: netip.MustParseAddr("127.0.0.1"), SSH: spec.SSH{User: "root", Port: 1, Passwd: spec.NewSecret("p")}}
	for _, spared := range []bool{false, true} {
		f, err := Reach(t.Context(), []spec.Node{away}, host.Options{Home: t.TempDir()}, spec.Sources{}, func(n spec.Node) bool { return spared && n.Address == away.Address })
		if !spared {
			if err == nil || !strings.Contains(err.Error(), "connect 127.0.0.1:1: ") {
				t.Errorf("not spared: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Machines[0].Lost == nil || f.Machines[0].Host != nil {
			t.Errorf("spared: lost %v, host %v", f.Machines[0].Lost, f.Machines[0].Host)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
