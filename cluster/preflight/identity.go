package preflight

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
)

func identityChecks() []check {
	return []check{
		{"hostname", checkHostname}, {"address", checkAddress}, {"machine-id", checkMachineID}, {"product-uuid", checkProductUUID},
		{"clock", checkClock}, {"time-sync", checkTimeSync},
	}
}

// rfc1123 matches the names that Kubernetes takes for a node.
var rfc1123 = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// nodeName is the name that a machine has in the cluster.
func (n Node) nodeName() string { return strings.ToLower(cmp.Or(n.Name, n.Hostname)) }

func checkHostname(f *findings) {
	const remedy = "give it a hostname of its own: hosts[].name in the Clusterfile, or hostnamectl set-hostname"
	for _, n := range f.in.Nodes {
		name := n.nodeName()
		switch {
		case name == "" || len(name) > 253 || !rfc1123.MatchString(name):
			f.fail(n.Host, remedy, "its hostname %q is no name for a node (RFC 1123)", name)
		case name == "localhost" || strings.HasPrefix(name, "localhost."):
			f.fail(n.Host, remedy, "its hostname is %s", name)
		}
	}
	f.unique("hostname", remedy, Fail, Node.nodeName)
}

// unique finds nodes that share a value.
func (f *findings) unique(what, remedy string, level Level, value func(Node) string) {
	by := map[string][]string{}
	for _, n := range f.in.Nodes {
		if v := value(n); v != "" {
			by[v] = append(by[v], n.Host)
		}
	}
	for _, n := range f.in.Nodes {
		v := value(n)
		if len(by[v]) < 2 {
			continue
		}
		f.list = append(f.list, finding{level, n.Host, "they have one " + what + ": " + v, remedy})
	}
}

func checkAddress(f *findings) {
	f.unique("address", "each host needs an address of its own", Fail, func(n Node) string { return n.Address })
	owners := map[string][]string{}
	for _, n := range f.in.Nodes {
		for _, a := range n.Addresses {
			if p, err := netip.ParsePrefix(a.CIDR); err == nil && !slices.Contains(owners[p.Addr().String()], n.Host) {
				owners[p.Addr().String()] = append(owners[p.Addr().String()], n.Host)
			}
		}
	}
	for _, n := range f.in.Nodes {
		have := owners[n.Address]
		for _, other := range have {
			if other != n.Host {
				f.fail(n.Host, "each host needs an address of its own", "its address %s is on %s, too", n.Address, other)
			}
		}
		switch {
		case len(n.Addresses) == 0 || slices.Contains(have, n.Host): // unknown, or well
		case n.Master:
			f.fail(n.Host, "name the master by an address of its own interface: etcd listens on it", "none of its interfaces has the address %s", n.Address)
		default:
			f.warn(n.Host, "name it by an address of its own interface", "none of its interfaces has the address %s", n.Address)
		}
	}
}

// own leaves out the value of a container, which shares it with the machine
// that it runs on.
func own(value func(Node) string) func(Node) string {
	return func(n Node) string {
		if n.Container != "" {
			return ""
		}
		return value(n)
	}
}

func checkMachineID(f *findings) {
	f.unique("machine-id", "a cloned machine: rm /etc/machine-id; systemd-machine-id-setup; reboot", Fail,
		own(func(n Node) string { return n.MachineID }))
}

func checkProductUUID(f *findings) {
	f.unique("product_uuid", "a cloned machine: give the virtual machine a UUID of its own", Warn,
		own(func(n Node) string { return n.ProductUUID }))
}

// checkClock compares with the clock in the middle: one clock that is wrong is
// told of then, and not all the others.
func checkClock(f *findings) {
	if len(f.in.Nodes) == 0 {
		return
	}
	sorted := slices.Clone(f.in.Nodes)
	slices.SortStableFunc(sorted, func(a, b Node) int { return cmp.Compare(a.Clock, b.Clock) })
	middle := sorted[(len(sorted)-1)/2]
	for _, n := range f.in.Nodes {
		off := n.Clock - middle.Clock
		if off.Abs() <= f.duration()+n.ClockErr+middle.ClockErr {
			continue
		}
		way := "ahead of"
		if off < 0 {
			way = "behind"
		}
		f.fail(n.Host, "set the clocks right: chronyd or systemd-timesyncd against one server",
			"its clock is %v %s that of %s: certificates and leases fail", off.Abs().Round(100*time.Millisecond), way, middle.Host)
	}
}

func checkTimeSync(f *findings) {
	for _, n := range f.in.Nodes {
		keeps := slices.ContainsFunc(n.Units, func(u plan.Unit) bool {
			return u.Active && slices.Contains([]string{"chronyd.service", "ntpd.service", "systemd-timesyncd.service"}, u.Name)
		})
		if n.TimeSync == "unsynchronised" && !keeps && n.Container == "" {
			f.warn(n.Host, "let chronyd or systemd-timesyncd run", "nothing keeps its clock right")
		}
	}
}
