package preflight

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// good is a cluster of two masters and a worker that nothing is wrong with.
func good() Input {
	in := Input{File: &spec.File{}, Archs: []string{"amd64"}, Kubernetes: "v1.33.2"}
	for i, host := range []string{"m1", "m2", "n1"} {
		n := Node{Address: "10.0.0." + string(rune('1'+i)), Master: i < 2, Registry: i < 2}
		n.Facts = plan.Facts{
			Host: host, OS: "linux", Arch: "amd64", Kernel: "6.1.0-13-amd64", Hostname: host, MachineID: "id-" + host, ProductUUID: "uuid-" + host,
			InitSystem: "systemd", CPUs: 4, Memory: 8e9, Cgroup: 2, Controllers: []string{"cpu", "cpuset", "memory", "pids"},
			TimeSync: "synchronised", Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ClockErr: time.Millisecond,
			Addresses:   []plan.Address{{Interface: "docker0", CIDR: "172.17.0.1/16", MTU: 1500}, {Interface: "eth0", CIDR: n.Address + "/24", MTU: 1500}},
			Routes:      []plan.Route{{To: "0.0.0.0/0", Via: "10.0.0.254", Interface: "eth0"}, {To: "10.0.0.0/24", Interface: "eth0"}},
			Nameservers: []string{"10.0.0.53"}, Modules: []string{"br_netfilter", "nf_conntrack", "overlay"},
			Mounts: []plan.Mount{{Path: "/", Point: "/", Bytes: 50e9, TotalBytes: 60e9, Inodes: 1e6}, {Path: "/var/lib/etcd", Point: "/data", Bytes: 5e9, TotalBytes: 6e9, Inodes: 1e6}},
			Fsync:  time.Millisecond,
		}
		// The bridge of docker has the same address everywhere: that is well.
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

func TestGood(t *testing.T) {
	t.Parallel()
	r, err := Run(good())
	if err != nil || r.Err() != nil || r.Count(OK) != len(Names()) {
		t.Errorf("%v %+v", err, slices.DeleteFunc(r.Results, func(x Result) bool { return x.Level == OK }))
	}
}

// kubeadm gives the Clusterfile a document.
func kubeadm(kind string, tree map[string]any) func(*Input) {
	return func(in *Input) { in.File.Kubeadm = append(in.File.Kubeadm, spec.Document{Kind: kind, Tree: tree}) }
}

func TestBad(t *testing.T) {
	t.Parallel()
	node := func(i int, f func(n *Node)) func(*Input) { return func(in *Input) { f(&in.Nodes[i]) } }
	for name, tt := range map[string]struct {
		change func(*Input)
		// want are "check level hosts: part of message and remedy".
		want []string
	}{
		"unknown fact":      {node(0, func(n *Node) { n.Unknown = []plan.Unknown{{Fact: "swap", Cause: "denied"}} }), []string{"facts warn m1: swap could not be found out: denied"}},
		"other system":      {node(0, func(n *Node) { n.OS = "darwin" }), []string{"os fail m1: it runs darwin"}},
		"other arch":        {node(2, func(n *Node) { n.Arch = "arm64" }), []string{"arch fail n1: it is arm64, and the image is for amd64|build the image with --platform linux/arm64"}},
		"no root":           {node(2, func(n *Node) { n.UID = 1000 }), []string{"root fail n1: as user 1000"}},
		"old kernel":        {node(2, func(n *Node) { n.Kernel = "3.10.0-1160.el7" }), []string{"kernel fail n1: the kernel is 3.10.0"}},
		"odd kernel":        {node(2, func(n *Node) { n.Kernel = "x" }), []string{"kernel warn n1: not known"}},
		"cgroup v1 is well": {node(0, func(n *Node) { n.Cgroup = 1 }), nil},
		"cgroup v1, 1.35": {func(in *Input) { in.Kubernetes = "v1.35.0"; in.Nodes[1].Cgroup = 1 },
			[]string{"cgroup fail m2: the kubelet of v1.35.0 does not start|failCgroupV1: false"}},
		"controllers":  {node(0, func(n *Node) { n.Controllers = []string{"cpu", "cpuset", "pids"} }), []string{"cgroup fail m1: memory are missing"}},
		"no systemd":   {node(0, func(n *Node) { n.InitSystem = "runit" }), []string{"init warn m1: runit"}},
		"cpus":         {func(in *Input) { in.Nodes[0].CPUs, in.Nodes[2].CPUs = 1, 1 }, []string{"cpus fail m1: it has 1 CPUs"}},
		"memory":       {func(in *Input) { in.Nodes[0].Memory, in.Nodes[2].Memory = 1e9, 5e8 }, []string{"memory fail m1: 1.0 GB", "memory warn n1: 500 MB"}},
		"swap":         {node(1, func(n *Node) { n.Swap = 2e9 }), []string{"swap fail m2: 2.0 GB of swap are on|swapoff -a"}},
		"modules":      {node(1, func(n *Node) { n.Modules, n.Loadable = nil, []string{"overlay", "nf_conntrack"} }), []string{"modules warn m2: br_netfilter"}},
		"sysctl":       {node(1, func(n *Node) { n.Sysctl = []plan.Variable{{Name: "vm.overcommit_memory", Value: "2"}} }), []string{"sysctl warn m2: vm.overcommit_memory is 2"}},
		"leftover":     {node(1, func(n *Node) { n.Leftovers = []string{"/etc/kubernetes/admin.conf"} }), []string{"leftovers fail m2: /etc/kubernetes/admin.conf|kubeadm reset -f"}},
		"cni leftover": {node(1, func(n *Node) { n.Leftovers = []string{"/etc/cni/net.d/87-podman.conflist", "/sys/class/net/docker0"} }), []string{"leftovers warn m2: 87-podman"}},
		"runtime": {node(1, func(n *Node) {
			n.Units = []plan.Unit{{Name: "docker.service", Active: true}, {Name: "kubelet.service"}}
		}), []string{"runtime warn m2: docker runs already"}},
		"selinux":       {node(1, func(n *Node) { n.SELinux = "enforcing" }), []string{"selinux warn m2: enforcing"}},
		"firewalld":     {node(1, func(n *Node) { n.Firewalld = true }), []string{"firewall warn m2: a firewall runs"}},
		"hostnames":     {node(1, func(n *Node) { n.Hostname = "M1" }), []string{"hostname fail m1, m2: they have one hostname: m1|hosts[].name"}},
		"named apart":   {func(in *Input) { in.Nodes[1].Hostname, in.Nodes[1].Name = "m1", "other" }, nil},
		"bad hostname":  {node(1, func(n *Node) { n.Hostname = "a_b" }), []string{"hostname fail m2: \"a_b\" is no name"}},
		"localhost":     {node(1, func(n *Node) { n.Hostname = "localhost" }), []string{"hostname fail m2: its hostname is localhost"}},
		"addresses":     {node(1, func(n *Node) { n.Address = "10.0.0.1" }), []string{"address fail m1, m2: they have one address: 10.0.0.1", "address fail m2: is on m1, too", "address fail m2: none of its interfaces"}},
		"address twice": {node(2, func(n *Node) { n.Addresses = append(n.Addresses, plan.Address{CIDR: "10.0.0.1/24"}) }), []string{"address fail m1: its address 10.0.0.1 is on n1, too"}},
		"behind NAT":    {func(in *Input) { in.Nodes[0].Address, in.Nodes[2].Address = "1.2.3.4", "1.2.3.5" }, []string{"address fail m1: none of its interfaces has the address 1.2.3.4", "address warn n1: 1.2.3.5"}},
		"machine-id":    {node(1, func(n *Node) { n.MachineID = "id-m1" }), []string{"machine-id fail m1, m2: they have one machine-id"}},
		"product_uuid":  {node(1, func(n *Node) { n.ProductUUID = "uuid-m1" }), []string{"product-uuid warn m1, m2: they have one product_uuid"}},
		"containers": {func(in *Input) {
			in.Nodes[0].Container, in.Nodes[1].Container, in.Nodes[1].ProductUUID = "lxc", "lxc", "uuid-m1"
		}, nil},
		"clock":        {node(1, func(n *Node) { n.Clock = time.Hour }), []string{"clock fail m2: its clock is 1h0m0s ahead of"}},
		"clock behind": {node(0, func(n *Node) { n.Clock = -90 * time.Minute }), []string{"clock fail m1: its clock is 1h30m0s behind"}},
		"all clocks off": {func(in *Input) {
			in.Nodes[0].Clock, in.Nodes[1].Clock, in.Nodes[2].Clock = time.Hour, time.Hour, time.Hour
		}, nil},
		"clock not sure": {node(1, func(n *Node) { n.Clock, n.ClockErr = 3*time.Second, 3*time.Second }), nil},
		"clock not kept": {node(1, func(n *Node) { n.TimeSync = "unsynchronised" }), []string{"time-sync warn m2: nothing keeps"}},
		"clock kept": {node(1, func(n *Node) {
			n.TimeSync, n.Units = "unsynchronised", []plan.Unit{{Name: "chronyd.service", Active: true}}
		}), nil},
		"port": {node(0, func(n *Node) {
			n.Listening = []plan.Listener{{Network: "tcp", Address: "127.0.0.1", Port: 6443, Program: "haproxy"}, {Network: "udp", Port: 2379}}
		}),
			[]string{"ports fail m1: port 6443, for the API server, is taken by haproxy|sport = :6443"}},
		"registry port": {func(in *Input) {
			in.File.Cluster.Registry.Local = &spec.LocalRegistry{Port: 5443}
			for i := range in.Nodes {
				in.Nodes[i].Listening = []plan.Listener{{Network: "tcp", Port: 5443}, {Network: "tcp", Port: 5000}}
			}
		}, []string{"ports fail m1, m2: port 5443, for the registry, is taken by another program"}},
		"matrix": {func(in *Input) {
			in.Links = []plan.Link{{From: "n1", To: "m1", Port: plan.Port{Network: "tcp", Port: 6443, For: "API server"}, Cause: "connection refused"}, {From: "m1", To: "m2"},
				{From: "n1", To: "m1", Port: plan.Port{Network: "tcp", Port: 5000}, Cause: "connection refused"},
				{From: "m2", To: "m2", Port: plan.Port{Network: "tcp", Port: 81}, Cause: "cannot listen: denied"}}
		}, []string{"port-matrix fail n1: it does not reach 6443/tcp, 5000/tcp of m1: connection refused|open them in the firewalls of m1", "port-matrix fail m2: 81/tcp: cannot listen"}},
		"pods and services": {kubeadm("ClusterConfiguration", map[string]any{"networking": map[string]any{"podSubnet": "10.96.8.0/24"}}), []string{"cidr fail m1: the pods' network 10.96.8.0/24 and the services' 10.96.0.0/12 overlap"}},
		"pods and nodes":    {kubeadm("ClusterConfiguration", map[string]any{"networking": map[string]any{"podSubnet": "10.0.0.0/16"}}), []string{"cidr fail m1, m2, n1: the pods' network 10.0.0.0/16 and its route to 10.0.0.0/24 (eth0) overlap"}},
		"address of another family": {func(in *Input) {
			in.Nodes[0].Address, in.Nodes[0].Addresses = "fd00::1", nil
		}, []string{"cidr fail m1: its address and the services' network 10.96.0.0/12 are of different families|serviceSubnet"}},
		"mtu":              {func(in *Input) { in.Nodes[1].Addresses[1].MTU, in.Nodes[2].Addresses[1].MTU = 9000, 1000 }, []string{"mtu warn m2: MTU of 9000", "mtu warn n1: MTU of 1000"}},
		"no default route": {node(2, func(n *Node) { n.Routes = n.Routes[1:] }), []string{"default-route warn n1: no default route"}},
		"no nameserver":    {node(2, func(n *Node) { n.Nameservers = nil }), []string{"resolv warn n1: names no server"}},
		"nameserver loop":  {node(2, func(n *Node) { n.Nameservers = []string{"127.0.0.1"} }), []string{"resolv warn n1: CoreDNS would ask itself"}},
		"resolved": {node(2, func(n *Node) {
			n.Nameservers, n.Units = []string{"127.0.0.53"}, []plan.Unit{{Name: "systemd-resolved.service", Active: true}}
		}), nil},
		"proxy": {node(2, func(n *Node) {
			n.Proxies = []plan.Variable{{Name: "http_proxy", Value: "http://p"}, {Name: "no_proxy", Value: "localhost"}}
		}), []string{"proxy warn n1: http_proxy is set, and no_proxy lacks sea.hub"}},
		"proxy with all": {node(2, func(n *Node) {
			n.Proxies = []plan.Variable{{Name: "http_proxy", Value: "http://p"}, {Name: "NO_PROXY", Value: "localhost, sea.hub"}}
		}), nil},
		"no space": {node(2, func(n *Node) { n.Needs = []Space{{"/var/lib/sealer", 30e9}, {"/usr/bin/x", 20e9}} }),
			[]string{"disk fail n1: / has 50.0 GB free, and 55.0 GB are needed"}},
		"space on two disks": {node(0, func(n *Node) { n.Needs = []Space{{"/var/lib/sealer", 40e9}, {"/var/lib/etcd", 4e9}} }), nil},
		"nearly full":        {node(0, func(n *Node) { n.Mounts[0].Bytes = 5e8 }), []string{"disk fail m1: / has 500 MB free", "disk-pressure warn m1: / has less than 10 % of its space free"}},
		"pressure of images": {node(0, func(n *Node) { n.Mounts[0].Bytes = n.Mounts[0].TotalBytes * 14 / 100 }), []string{"disk-pressure warn m1: / has less than 15 % of its space free"}},
		"own thresholds": {func(in *Input) {
			kubeadm("KubeletConfiguration", map[string]any{"evictionHard": map[string]any{"nodefs.available": "1Gi"}})(in)
			in.Nodes[0].Mounts[0].Bytes = in.Nodes[0].Mounts[0].TotalBytes * 5 / 100
		}, nil},
		"inodes":            {node(0, func(n *Node) { n.Mounts[0].Inodes = 5 }), []string{"inodes fail m1: 5 inodes"}},
		"no inodes counted": {node(0, func(n *Node) { n.Mounts[0].Inodes = -1 }), nil},
		"noexec": {node(0, func(n *Node) {
			n.Mounts = append(n.Mounts, plan.Mount{Path: "/opt", Point: "/opt", TotalBytes: 1, NoExec: true})
		}), []string{"noexec fail m1: /opt (/opt) is mounted noexec"}},
		"read-only": {node(0, func(n *Node) {
			n.Mounts = append(n.Mounts, plan.Mount{Path: "/etc", Point: "/etc", TotalBytes: 1, ReadOnly: true})
		}), []string{"noexec fail m1: /etc (/etc) is read-only"}},
		"slow disk": {func(in *Input) { in.Nodes[0].Fsync, in.Nodes[2].Fsync = 80*time.Millisecond, time.Second }, []string{"etcd-disk warn m1: up to 80ms"}},
		"ours": {func(in *Input) {
			for i := range in.Nodes {
				n := &in.Nodes[i]
				n.Ours, n.Leftovers, n.Listening = true, []string{"/etc/kubernetes/admin.conf"}, []plan.Listener{{Network: "tcp", Port: 10250}}
				n.Certificates = []plan.Cert{{Path: "/c.crt", Until: n.Time.Add(time.Duration(i) * 24 * 40 * time.Hour).Add(-time.Minute)}}
			}
		}, []string{"certificates fail m1: /c.crt has expired|sealer cert renew"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := good()
			tt.change(&in)
			r, err := Run(in)
			if err != nil {
				t.Fatal(err)
			}
			bad := slices.DeleteFunc(r.Results, func(x Result) bool { return x.Level == OK })
			if len(bad) != len(tt.want) {
				t.Fatalf("%+v, want %q", bad, tt.want)
			}
			for i, b := range bad {
				head, parts, _ := strings.Cut(tt.want[i], ": ")
				got := strings.Join([]string{b.Check, string(b.Level), strings.Join(b.Hosts, ", ")}, " ")
				message, remedy, _ := strings.Cut(parts, "|")
				if got != head || !strings.Contains(b.Message, message) || !strings.Contains(b.Remedy, remedy) {
					t.Errorf("%s: %s | %s, want %s", got, b.Message, b.Remedy, tt.want[i])
				}
			}
			if (r.Err() != nil) != slices.ContainsFunc(tt.want, func(w string) bool { return strings.Contains(w, " fail ") }) {
				t.Errorf("error: %v", r.Err())
			}
		})
	}
}

func TestSwapThatTheKubeletTakes(t *testing.T) {
	t.Parallel()
	in := good()
	in.Nodes[0].Swap, in.Nodes[0].Cgroup, in.Kubernetes = 1, 1, "v1.36.0"
	kubeadm("KubeletConfiguration", map[string]any{"failSwapOn": false, "failCgroupV1": false})(&in)
	if r, err := Run(in); err != nil || r.Err() != nil {
		t.Error(err, r.Err())
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	in := good()
	in.Nodes[0].Swap, in.Nodes[1].Clock, in.Nodes[0].Fsync = 1, time.Minute, time.Second
	in.File.Preflight = &spec.Preflight{
		Skip:       []spec.Skip{{Check: "swap", Reason: "a test machine"}},
		Thresholds: map[string]string{"clock": "2m", "etcd-disk": "2s", "memory": "2G"},
	}
	r, err := Run(in)
	if err != nil || r.Err() != nil || r.Count(Warn) != 0 || r.Count(Skipped) != 1 {
		t.Errorf("%v %+v", err, r)
	}
	i := slices.IndexFunc(r.Results, func(x Result) bool { return x.Check == "swap" })
	if r.Results[i].Level != Skipped || r.Results[i].Message != "a test machine" {
		t.Errorf("%+v", r.Results[i])
	}
	in.File.Preflight = &spec.Preflight{
		Skip:       []spec.Skip{{Check: "swapp", Reason: "x"}, {Check: "swap"}},
		Thresholds: map[string]string{"clock": "fast", "speed": "1", "memory": "many", "kernel": "new", "cpus": "x"},
	}
	_, err = Run(in)
	for _, want := range []string{`skip "swapp": there is no such check: facts,`, "skip swap: say the reason", `clock: "fast": want a value like 1s`, `threshold "speed"`, `memory: "many"`, `kernel: "new"`, `cpus: "x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestReached(t *testing.T) {
	t.Parallel()
	in := good()
	ports, from := in.Reached(in.Nodes[2])
	if len(ports) != 1 || ports[0].Port != 10250 || from(ports[0], "n1") || !from(ports[0], "m2") {
		t.Errorf("of a worker: %v", ports)
	}
	ports, _ = in.Reached(in.Nodes[0])
	var got []int
	for _, p := range ports {
		got = append(got, p.Port)
	}
	if !slices.Equal(got, []int{6443, 2379, 2380, 10250, 5000}) {
		t.Errorf("of a master: %v", got)
	}
}
