package preflight

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

func networkChecks() []check {
	return []check{
		{"ports", checkPorts}, {"port-matrix", checkMatrix}, {"cidr", checkCIDR}, {"mtu", checkMTU},
		{"default-route", checkDefaultRoute}, {"resolv", checkResolv}, {"proxy", checkProxy},
	}
}

// DefaultRegistryPort is where the private registry listens unless the
// Clusterfile says otherwise.
const DefaultRegistryPort = 5000

func (in Input) registryPort() int {
	if in.File != nil && in.File.Cluster.Registry.Local != nil && in.File.Cluster.Registry.Local.Port > 0 {
		return in.File.Cluster.Registry.Local.Port
	}
	return DefaultRegistryPort
}

// Ports returns the ports that a node of the cluster listens on once it runs.
func (in Input) Ports(n Node) []plan.Port {
	var ports []plan.Port
	add := func(port int, what string) { ports = append(ports, plan.Port{Network: "tcp", Port: port, For: what}) }
	if n.Master {
		add(6443, "API server")
		add(2379, "etcd clients")
		add(2380, "etcd peers")
		add(10257, "controller manager")
		add(10259, "scheduler")
	} else if in.localBalancer() {
		add(6443, "API balancer")
	}
	add(10250, "kubelet")
	add(10256, "kube-proxy")
	if n.Registry {
		add(in.registryPort(), "registry")
	}
	return ports
}

func (in Input) localBalancer() bool {
	b := ""
	if in.File != nil {
		b = in.File.Cluster.APIServer.Balancer
	}
	return b == "" || b == spec.BalancerLocal
}

// Reached returns the ports of n that other nodes connect to. From says for a
// port and a host whether the host connects to it.
func (in Input) Reached(n Node) (ports []plan.Port, from func(p plan.Port, host string) bool) {
	for _, p := range in.Ports(n) {
		switch p.Port {
		case 10257, 10259, 10256: // reached from the node itself alone
		case 6443:
			if n.Master {
				ports = append(ports, p)
			}
		default:
			ports = append(ports, p)
		}
	}
	if !n.Ours { // elsewhere the network itself has them
		ports = append(ports, in.podNetwork()...)
	}
	master := map[string]bool{}
	for _, n := range in.Nodes {
		master[n.Host] = n.Master
	}
	return ports, func(p plan.Port, host string) bool {
		switch p.Port {
		case 2379, 2380, 10250: // a master asks each kubelet, for logs and exec
			return master[host]
		}
		return true
	}
}

func checkPorts(f *findings) {
	for _, n := range f.in.Nodes {
		if n.Ours {
			continue
		}
		for _, p := range f.in.Ports(n) {
			// A listener on one address is in the way of a program that wants all.
			i := slices.IndexFunc(n.Listening, func(l plan.Listener) bool { return l.Network == p.Network && l.Port == p.Port })
			if i < 0 {
				continue
			}
			by := n.Listening[i].Program
			if by == "" {
				by = "another program"
			}
			f.fail(n.Host, fmt.Sprintf("stop it (ss -ltnp 'sport = :%d' names it)", p.Port), "port %d, for the %s, is taken by %s", p.Port, p.For, by)
		}
	}
}

// checkMatrix tells once of all ports of a node that another cannot reach for one
// cause.
func checkMatrix(f *findings) {
	type pair struct {
		from, to, cause string
		pods            bool
	}
	ports := map[pair][]string{}
	var order []pair
	for _, l := range f.in.Links {
		if l.Cause == "" {
			continue
		}
		p := pair{l.From, l.To, l.Cause, strings.HasPrefix(l.Port.For, forPods)}
		if ports[p] == nil {
			order = append(order, p)
		}
		ports[p] = append(ports[p], fmt.Sprintf("%d/%s", l.Port.Port, l.Network))
	}
	for _, p := range order {
		list := strings.Join(ports[p], ", ")
		if p.pods {
			f.warn(p.from, "open them, where the pod network of the image uses them", "it does not reach %s of %s, which is for pods: %s", list, p.to, p.cause)
			continue
		}
		if p.from == p.to {
			f.fail(p.to, "", "%s: %s", list, p.cause)
			continue
		}
		f.fail(p.from, "open them in the firewalls of "+p.to+" and on the way", "it does not reach %s of %s: %s", list, p.to, p.cause)
	}
}

// document1 returns a field, a.b, of the first kubeadm document of a kind.
func (in Input) document1(kind, field string) any {
	if in.File == nil {
		return nil
	}
	for _, d := range in.File.Kubeadm {
		if d.Kind != kind {
			continue
		}
		var at any = d.Tree
		for name := range strings.SplitSeq(field, ".") {
			tree, ok := at.(map[string]any)
			if !ok {
				at = nil
				break
			}
			at = tree[name]
		}
		if at != nil {
			return at
		}
	}
	return nil
}

// subnets returns the prefixes of a field of ClusterConfiguration.networking.
func (f *findings) subnets(field, def string) []netip.Prefix {
	text, ok := f.in.document1("ClusterConfiguration", "networking."+field).(string)
	if !ok {
		text = def
	}
	var out []netip.Prefix
	for s := range strings.SplitSeq(text, ",") {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

func checkCIDR(f *findings) {
	pods, services := f.subnets("podSubnet", ""), f.subnets("serviceSubnet", "10.96.0.0/12")
	for _, p := range pods {
		for _, s := range services {
			if p.Overlaps(s) {
				f.fail(f.in.Nodes[0].Host, "change networking.podSubnet or serviceSubnet of the ClusterConfiguration",
					"the pods' network %s and the services' %s overlap", p, s)
			}
		}
	}
	for _, n := range f.in.Nodes {
		f.family(n, services)
		if n.Ours {
			continue
		}
		for _, net := range pods {
			f.overlap(n, "pods'", net)
		}
		for _, net := range services {
			f.overlap(n, "services'", net)
		}
	}
}

// family finds a master whose address is of another family than the services'
// first network: its API server does not start (kube-apiserver, validation of
// --advertise-address against --service-cluster-ip-range).
func (f *findings) family(n Node, services []netip.Prefix) {
	a, err := netip.ParseAddr(n.Address)
	if err != nil || !n.Master || len(services) == 0 || a.Is4() == services[0].Addr().Is4() {
		return
	}
	f.fail(n.Host, "set networking.serviceSubnet and podSubnet of the ClusterConfiguration to networks of its family, or name the master by another address",
		"its address and the services' network %s are of different families: its API server would not start", services[0])
}

// overlap finds a route of a node into a network of the cluster. A route to an
// address of the node's own network is one of them.
func (f *findings) overlap(n Node, what string, net netip.Prefix) {
	for _, r := range n.Routes {
		to, err := netip.ParsePrefix(r.To)
		if err == nil && to.Bits() > 0 && to.Overlaps(net) {
			f.fail(n.Host, "change networking of the ClusterConfiguration, or the node's route",
				"the %s network %s and its route to %s (%s) overlap", what, net, r.To, r.Interface)
			return
		}
	}
}

// device returns the interface address that the Clusterfile names.
func (n Node) device() (plan.Address, bool) {
	for _, a := range n.Addresses {
		if p, err := netip.ParsePrefix(a.CIDR); err == nil && p.Addr().String() == n.Address {
			return a, true
		}
	}
	return plan.Address{}, false
}

func checkMTU(f *findings) {
	first := 0
	for _, n := range f.in.Nodes {
		d, ok := n.device()
		if !ok {
			continue
		}
		if first == 0 {
			first = d.MTU
		}
		switch {
		case float64(d.MTU) < f.number():
			f.warn(n.Host, "", "%s has an MTU of %d: tunnels of a pod network leave little of it", d.Interface, d.MTU)
		case d.MTU != first:
			f.warn(n.Host, "set one MTU on all nodes", "%s has an MTU of %s, others have %d: large packets may get lost", d.Interface, strconv.Itoa(d.MTU), first)
		}
	}
}

func checkDefaultRoute(f *findings) {
	for _, n := range f.in.Nodes {
		if len(n.Routes) > 0 && !slices.ContainsFunc(n.Routes, func(r plan.Route) bool { return strings.HasSuffix(r.To, "/0") }) {
			f.warn(n.Host, "ip route add default via GATEWAY, were the gateway never reached", "it has no default route: programs that ask for the node's address by it find none")
		}
	}
}

func checkResolv(f *findings) {
	for _, n := range f.in.Nodes {
		resolved := slices.ContainsFunc(n.Units, func(u plan.Unit) bool { return u.Name == "systemd-resolved.service" && u.Active })
		loop := slices.ContainsFunc(n.Nameservers, func(s string) bool {
			a, err := netip.ParseAddr(s)
			return err == nil && a.IsLoopback()
		})
		switch {
		case len(n.Nameservers) == 0:
			f.warn(n.Host, "name any server there, or give CoreDNS a Corefile without forward", "/etc/resolv.conf names no server: CoreDNS does not start with it")
		case loop && !resolved:
			f.warn(n.Host, "set resolvConf of the KubeletConfiguration to a file with the real servers", "/etc/resolv.conf names the node itself: CoreDNS would ask itself")
		}
	}
}

func checkProxy(f *findings) {
	for _, n := range f.in.Nodes {
		set, except := "", ""
		for _, v := range n.Proxies {
			if strings.EqualFold(v.Name, "no_proxy") {
				except += "," + v.Value
			} else {
				set = v.Name
			}
		}
		domain := "sea.hub"
		if f.in.File != nil && f.in.File.Cluster.Registry.Local != nil && f.in.File.Cluster.Registry.Local.Domain != "" {
			domain = f.in.File.Cluster.Registry.Local.Domain
		}
		if set != "" && !slices.Contains(strings.FieldsFunc(except, func(r rune) bool { return r == ',' || r == ' ' }), domain) {
			f.warn(n.Host, "add "+domain+", the nodes and the cluster's networks to no_proxy", "%s is set, and no_proxy lacks %s", set, domain)
		}
	}
}
