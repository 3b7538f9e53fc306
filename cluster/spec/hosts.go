package spec

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// The roles that decide a machine's part in the cluster.
const (
	RoleMaster = "master"
	RoleNode   = "node"
)

// maxRange is the largest number of machines that one a-b range may stand for.
const maxRange = 4096

// A Node is one machine: an entry of Cluster.Hosts taken apart, with the
// cluster's own values where the host says nothing.
type Node struct {
	Address netip.Addr
	Name    string   // "" keeps the machine's hostname
	Roles   []string // RoleMaster, RoleNode first; others are labels
	SSH     SSH      // User and Port are filled in
	Env     []string // the cluster's, then the host's over it
	Labels  map[string]string
	Taints  []string
}

// Master reports whether the machine runs the control plane.
func (n Node) Master() bool { return slices.Contains(n.Roles, RoleMaster) }

// Worker reports whether the machine runs workloads. A machine with both roles
// is a master without the taint that keeps workloads away.
func (n Node) Worker() bool { return slices.Contains(n.Roles, RoleNode) }

// Nodes returns the machines in the order of the Clusterfile, the masters
// first. Its errors have no lines; Validate reports the same faults with lines.
func (c *Cluster) Nodes() ([]Node, error) {
	var masters, workers []Node
	for _, h := range c.Hosts {
		addresses, err := ParseAddresses(h.IPs...)
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			n := c.node(h, a)
			if n.Master() {
				masters = append(masters, n)
			} else {
				workers = append(workers, n)
			}
		}
	}
	return append(masters, workers...), nil
}

func (c *Cluster) node(h Host, a netip.AddrPort) Node {
	n := Node{
		Address: a.Addr(), Name: h.Name, Roles: Roles(h.Roles), SSH: h.SSH.over(c.SSH),
		Env: mergeEnv(h.Env, c.Env), Labels: maps.Clone(h.Labels), Taints: slices.Clone(h.Taints),
	}
	if a.Port() != 0 {
		n.SSH.Port = int(a.Port())
	}
	if n.SSH.Port == 0 {
		n.SSH.Port = 22
	}
	if n.SSH.User == "" {
		n.SSH.User = "root"
	}
	return n
}

// Roles returns roles with their other names replaced, each once.
func Roles(roles []string) []string {
	var out []string
	for _, r := range roles {
		switch r {
		case "control-plane", "controlplane":
			r = RoleMaster
		case "worker":
			r = RoleNode
		}
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// ParseAddresses reads lists of machines: addresses of IPv4 and IPv6 separated
// by commas, ranges a-b, each with an ssh port if wanted (10.0.0.1:2222,
// [fd00::1]:22). The port of an address without one is 0.
func ParseAddresses(lists ...string) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	for _, list := range lists {
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); word == "" {
				continue
			}
			got, err := parseRange(word)
			if err != nil {
				return nil, err
			}
			all = append(all, got...)
		}
	}
	return all, nil
}

func parseRange(word string) ([]netip.AddrPort, error) {
	from, to, isRange := strings.Cut(word, "-")
	first, err := parseAddress(from)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", word, err)
	}
	if !isRange {
		return []netip.AddrPort{first}, nil
	}
	last, err := parseAddress(to)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", word, err)
	}
	if last.Port() == 0 {
		last = netip.AddrPortFrom(last.Addr(), first.Port())
	}
	switch {
	case first.Port() != 0 && first.Port() != last.Port():
		return nil, fmt.Errorf("%q: a range has one port", word)
	case first.Addr().Is4() != last.Addr().Is4():
		return nil, fmt.Errorf("%q: the ends are of different families", word)
	case last.Addr().Less(first.Addr()):
		return nil, fmt.Errorf("%q: the end lies before the beginning", word)
	}
	var all []netip.AddrPort
	for a := first.Addr(); ; a = a.Next() {
		if len(all) == maxRange {
			return nil, fmt.Errorf("%q: more than %d addresses", word, maxRange)
		}
		all = append(all, netip.AddrPortFrom(a, last.Port()))
		if a == last.Addr() {
			return all, nil
		}
	}
}

func parseAddress(s string) (netip.AddrPort, error) {
	s = strings.TrimSpace(s)
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	port := uint64(0)
	if err != nil {
		i := strings.LastIndexByte(s, ':')
		if i < 0 {
			return netip.AddrPort{}, fmt.Errorf("%q is no address: write IP addresses, as 10.0.0.1, 10.0.0.1:22 or 10.0.0.1-10.0.0.5", s)
		}
		if port, err = strconv.ParseUint(s[i+1:], 10, 16); err != nil || port == 0 {
			return netip.AddrPort{}, fmt.Errorf("%q: the port must be between 1 and 65535", s)
		}
		if a, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s[:i], "["), "]")); err != nil {
			return netip.AddrPort{}, fmt.Errorf("%q is no address with a port", s)
		}
	}
	if a = a.Unmap(); a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" {
		return netip.AddrPort{}, fmt.Errorf("%q is not the address of a machine", s)
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

// over returns s with low's values in the fields that s leaves empty. A key or
// a password of s stands alone: low's are not tried beside it.
func (s SSH) over(low SSH) SSH {
	if s.Passwd.IsZero() && s.Pk == "" {
		s.Passwd, s.Pk, s.PkPasswd, s.Encrypted = low.Passwd, low.Pk, low.PkPasswd, low.Encrypted
	}
	fill(&s.User, low.User)
	fill(&s.Port, low.Port)
	fill(&s.KnownHosts, low.KnownHosts)
	fill(&s.Agent, low.Agent)
	fill(&s.Jump, low.Jump)
	return s
}

// fill sets v to low's value when it is zero.
func fill[T comparable](v *T, low T) {
	var zero T
	if *v == zero {
		*v = low
	}
}

// A Taint keeps pods from a node that do not tolerate it.
type Taint struct {
	Key, Value string
	Effect     string // NoSchedule, PreferNoSchedule, NoExecute; "" with Remove: all
	Remove     bool   // written with a - at the end
}

// ParseTaint reads key[=value]:Effect, or with a - at the end a taint to be
// removed, whose effect may be left out.
func ParseTaint(s string) (Taint, error) {
	word, remove := strings.CutSuffix(s, "-")
	kv, effect, has := strings.Cut(word, ":")
	t := Taint{Effect: effect, Remove: remove}
	t.Key, t.Value, _ = strings.Cut(kv, "=")
	effects := []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	switch {
	case !labelKey(t.Key) || !labelValue(t.Value):
		return t, fmt.Errorf("taint %q: write key=value:Effect", s)
	case !has && !remove:
		return t, fmt.Errorf("taint %q has no effect: one of %s", s, strings.Join(effects, ", "))
	case has && !slices.Contains(effects, effect):
		return t, fmt.Errorf("taint %q: unknown effect %q: %s", s, effect, didYouMean(effect, effects))
	}
	return t, nil
}

func hostPath(i int) string { return fmt.Sprintf("spec.hosts[%d]", i) }
