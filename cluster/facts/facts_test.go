package facts

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/wire"
)

// fake makes a machine of files; a name that ends in / is a directory.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		case strings.HasPrefix(content, "-> "):
			err = os.Symlink(content[3:], path)
		default:
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCollect(t *testing.T) {
	t.Parallel()
	root := fake(t, map[string]string{
		"etc/os-release":                        "NAME=x\nPRETTY_NAME=\"Debian 12\"\n",
		"proc/sys/kernel/osrelease":             "6.1.0\n",
		"proc/sys/kernel/hostname":              "n1\n",
		"proc/sys/kernel/random/boot_id":        "b\n",
		"etc/machine-id":                        "m1\n",
		"sys/class/dmi/id/product_uuid":         "ABC-1\n",
		"proc/1/comm":                           "systemd\n",
		"run/systemd/system/":                   "",
		"sys/devices/system/cpu/online":         "0-3,6\n",
		"proc/meminfo":                          "MemTotal:  2048 kB\nMemFree: 1 kB\n",
		"proc/swaps":                            "Filename Type Size Used Priority\n/swap file 1024 0 -2\n/b file 1024 0 -2\n",
		"sys/fs/cgroup/cgroup.controllers":      "memory cpu\n",
		"proc/net/route":                        "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\neth0 00000000 0102A8C0 0003 0 0 0 00000000 0 0 0\neth0 0002A8C0 00000000 0001 0 0 0 00FFFFFF 0 0 0\n",
		"proc/net/ipv6_route":                   "00000000000000000000000000000000 00 00000000000000000000000000000000 00 20010db8000000000000000000000001 00000400 1 0 00000003 eth0\nfe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 1 0 00000001 eth0\n",
		"proc/net/tcp":                          "sl local rem st\n 0: 0100007F:192B 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n 1: 0100007F:0050 00000000:0000 01 0:0 0:0 0 0 0 78 1\n",
		"proc/net/tcp6":                         "sl local rem st\n 0: 00000000000000000000000001000000:1388 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 79 1\n",
		"proc/net/udp":                          "sl local rem st\n 0: 00000000:0044 00000000:0000 07 0:0 0:0 0 0 0 80 1\n",
		"proc/12/fd/3":                          "-> socket:[77]",
		"proc/12/comm":                          "kube-apiserver\n",
		"etc/resolv.conf":                       "search x\nnameserver 10.0.0.2\n",
		"etc/hosts":                             "127.0.0.1 localhost\n10.0.0.9 old sea.hub # x\n",
		"etc/environment":                       "PATH=/bin\nhttp_proxy=http://user:s3cret@proxy:3128\nNO_PROXY=\n",
		"proc/self/mountinfo":                   "1 0 8:1 / / rw,relatime - ext4 /dev/sda rw\n2 1 8:2 / /var/lib/etcd rw,noexec - xfs /dev/sdb rw\n3 1 8:3 / /tmp ro - tmpfs x rw\n",
		"proc/modules":                          "br_netfilter 1 0 - Live 0x0\nnfs 1 0 - Live 0x0\n",
		"proc/filesystems":                      "nodev\toverlay\n\text4\n",
		"lib/modules/6.1.0/modules.builtin":     "kernel/net/nf-conntrack.ko\n",
		"lib/modules/6.1.0/modules.dep":         "kernel/net/ip_vs.ko.xz: kernel/x.ko\n",
		"proc/sys/net/ipv4/ip_forward":          "0\n",
		"usr/lib/systemd/system/docker.service": "[Unit]",
		"sys/fs/cgroup/system.slice/docker.service/cgroup.procs":    "12\n",
		"etc/systemd/system/multi-user.target.wants/docker.service": "x",
		"usr/bin/runc":                           "x",
		"etc/kubernetes/admin.conf":              "x",
		"etc/cni/net.d/10-x.conflist":            "x",
		"sys/class/net/cni0/":                    "",
		"sys/fs/selinux/enforce":                 "1",
		"sys/module/apparmor/parameters/enabled": "N\n",
	})
	got := Collect(t.Context(), Options{Root: root})
	want := plan.Facts{
		OS: "linux", Distribution: "Debian 12", Kernel: "6.1.0", Hostname: "n1", MachineID: "m1", ProductUUID: "abc-1", BootID: "b",
		InitSystem: "systemd", CPUs: 5, Memory: 2 << 20, Swap: 2 << 20, Cgroup: 2, Controllers: []string{"cpu", "memory"},
		Routes: []plan.Route{
			{To: "0.0.0.0/0", Via: "192.168.2.1", Interface: "eth0"}, {To: "192.168.2.0/24", Interface: "eth0"},
			{To: "::/0", Via: "2001:db8::1", Interface: "eth0"},
		},
		Listening: []plan.Listener{
			{Network: "udp", Address: "0.0.0.0", Port: 68}, {Network: "tcp", Address: "::1", Port: 5000},
			{Network: "tcp", Address: "127.0.0.1", Port: 6443, Program: "kube-apiserver"},
		},
		Nameservers: []string{"10.0.0.2"},
		Hosts:       []plan.HostsEntry{{Address: "127.0.0.1", Names: []string{"localhost"}}, {Address: "10.0.0.9", Names: []string{"old", "sea.hub"}}},
		Proxies:     []plan.Variable{{Name: "http_proxy", Value: "http://proxy:3128"}},
		Modules:     []string{"br_netfilter", "nf_conntrack", "overlay"}, Loadable: []string{"ip_vs"},
		Sysctl:    []plan.Variable{{Name: "net.ipv4.ip_forward", Value: "0"}},
		Units:     []plan.Unit{{Name: "docker.service", Active: true, Enabled: true}},
		Programs:  []plan.Program{{Name: "runc", Path: "/usr/bin/runc"}},
		Leftovers: []string{"/etc/cni/net.d/10-x.conflist", "/etc/kubernetes/admin.conf", "/sys/class/net/cni0"},
		SELinux:   "enforcing",
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(plan.Facts{}, "Arch", "UID", "Time", "Mounts")); diff != "" {
		t.Error(diff)
	}
	for _, m := range got.Mounts {
		switch {
		case m.Path == "/var/lib/etcd" && (m.Point != "/var/lib/etcd" || m.Type != "xfs" || !m.NoExec || m.ReadOnly),
			m.Path == "/tmp" && !m.ReadOnly, m.Path == "/var/lib/sealer" && (m.Point != "/" || m.Type != "ext4"):
			t.Errorf("%+v", m)
		}
	}
}

func TestCollectFromNothing(t *testing.T) {
	t.Parallel()
	got := Collect(t.Context(), Options{Root: t.TempDir()})
	if len(got.Unknown) > 0 || got.Cgroup != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCollectBroken(t *testing.T) {
	t.Parallel()
	root := fake(t, map[string]string{
		"proc/net/tcp":        "x\n 0: zz:1 00 0A 0 0 0 0 0 1\n 1: 0100007F:ZZZZ 0 0A 0 0 0 0 0 1\n",
		"proc/net/route":      "x\neth0 1 2 3 4 5 6 7\n",
		"proc/net/ipv6_route": "a b c d e f g h i j\n",
		"proc/self/mountinfo": "junk\n1 2 3 - x\n",
		"proc/swaps":          "h\nx\n", "proc/meminfo": "MemTotal:\n",
		"sys/devices/system/cpu/online": "a-b",
		"etc/kubernetes/pki/ca.crt":     "no pem", "etc/hosts/": "",
	})
	got := Collect(t.Context(), Options{Root: root})
	if len(got.Listening) > 0 || len(got.Routes) > 0 || got.CPUs == 0 {
		t.Errorf("%+v", got)
	}
	if len(got.Unknown) != 1 || got.Unknown[0].Fact != "hosts" {
		t.Errorf("unknown: %+v", got.Unknown)
	}
}

func TestThisMachine(t *testing.T) {
	t.Parallel()
	got := Collect(t.Context(), Options{Fsync: true})
	if got.Hostname == "" || got.Kernel == "" || got.Memory == 0 || got.Fsync == 0 {
		t.Errorf("%+v", got)
	}
	for _, m := range got.Mounts {
		if m.Point == "" || m.TotalBytes == 0 {
			t.Errorf("%+v", m)
		}
	}
}

// sessions connects to as many nodes, all on this machine.
func sessions(t *testing.T, n int) []*wire.Conn {
	t.Helper()
	var conns []*wire.Conn
	for range n {
		a, b := net.Pipe()
		go wire.New(t.Context(), b, b, b.Close, wire.Options{Ops: Ops("")})
		c, err := wire.New(t.Context(), a, a, a.Close, wire.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

func TestAsk(t *testing.T) {
	t.Parallel()
	f, err := Ask(t.Context(), sessions(t, 1)[0], "n1", Options{})
	if err != nil || f.Host != "n1" || f.Hostname == "" {
		t.Errorf("%+v, %v", f, err)
	}
	if f.Clock.Abs() > time.Second || f.ClockErr <= 0 {
		t.Errorf("clock off by %v ± %v", f.Clock, f.ClockErr)
	}
}

// freePorts returns ports that nothing listens on.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for range n {
		l, err := net.Listen("tcp", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func TestMatrix(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().(*net.TCPAddr).Port
	free := freePorts(t, 3)
	api, etcd := plan.Port{Network: "tcp", Port: free[0], For: "API"}, plan.Port{Network: "udp", Port: free[1], For: "VXLAN"}
	conns := sessions(t, 3)
	peers := []Peer{
		{Name: "m1", Address: "127.0.0.1", Conn: conns[0], Ports: []plan.Port{api, etcd, {Network: "tcp", Port: taken}}},
		// An address that nobody has: nothing arrives there.
		{Name: "m2", Address: "127.0.0.1:x", Conn: conns[1], Ports: []plan.Port{{Network: "tcp", Port: free[2]}},
			From: func(_ plan.Port, from string) bool { return from == "m1" }},
		{Name: "n1", Address: "127.0.0.1", Conn: conns[2]},
	}
	links, err := Matrix(t.Context(), peers)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range links {
		state := "ok"
		if l.Cause != "" {
			state = "failed"
		}
		got = append(got, l.From+" "+l.To+" "+l.For+" "+state)
	}
	want := []string{"m1 m2  failed", "m2 m1 API ok", "m2 m1 VXLAN ok", "m2 m1  ok", "n1 m1 API ok", "n1 m1 VXLAN ok", "n1 m1  ok"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff, links)
	}
	if _, err := net.Listen("tcp", net.JoinHostPort("", "0")); err != nil {
		t.Fatal(err)
	}
	again, err := Matrix(t.Context(), peers)
	if diff := cmp.Diff(links, again); err != nil || diff != "" {
		t.Errorf("a second time, when all ports are free again: %v %s", err, diff)
	}
}

func TestMatrixLosesASession(t *testing.T) {
	t.Parallel()
	conns := sessions(t, 2)
	conns[1].Close()
	_, err := Matrix(context.WithoutCancel(t.Context()), []Peer{{Name: "a", Conn: conns[0]}, {Name: "b", Conn: conns[1]}})
	if err == nil || !strings.Contains(err.Error(), "b") {
		t.Error(err)
	}
}

// A program that takes connections in the place of the node is found out.
func TestAnotherProgramAnswers(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("HTTP/1.1 200"))
			c.Close()
		}
	}()
	to := target{Address: "127.0.0.1", Port: plan.Port{Network: "tcp", Port: l.Addr().(*net.TCPAddr).Port}, Greets: true}
	if err := try(t.Context(), to); err == nil || !strings.Contains(err.Error(), "another program answered") {
		t.Error(err)
	}
}
