package facts

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
)

// network reads the routing tables: /proc/net/route and ipv6_route. Addresses
// are in no file: askKernel asks for them.
func (m *machine) network() {
	for i, l := range m.lines("routes", "/proc/net/route") {
		words := strings.Fields(l)
		if i == 0 || len(words) < 8 {
			continue
		}
		to, okTo := address4(words[1])
		via, okVia := address4(words[2])
		mask, okMask := address4(words[7])
		if flags, err := strconv.ParseUint(words[3], 16, 32); err != nil || flags&1 == 0 || !okTo || !okVia || !okMask {
			continue
		}
		m.route(netip.PrefixFrom(to, ones(mask)), via, words[0])
	}
	for _, l := range m.lines("routes", "/proc/net/ipv6_route") {
		words := strings.Fields(l)
		if len(words) < 10 || words[9] == "lo" {
			continue
		}
		to, okTo := address6(words[0])
		via, okVia := address6(words[4])
		bits, err := strconv.ParseUint(words[1], 16, 8)
		if err != nil || !okTo || !okVia || to.IsLinkLocalUnicast() || to.IsMulticast() || bits == 128 {
			continue
		}
		m.route(netip.PrefixFrom(to, int(bits)), via, words[9])
	}
}

func (m *machine) route(to netip.Prefix, via netip.Addr, dev string) {
	r := plan.Route{To: to.String(), Interface: dev}
	if !via.IsUnspecified() {
		r.Via = via.String()
	}
	m.facts.Routes = append(m.facts.Routes, r)
}

func ones(mask netip.Addr) int {
	n := 0
	for _, b := range mask.AsSlice() {
		for ; b&0x80 != 0; b <<= 1 {
			n++
		}
	}
	return n
}

// address4 reads an address as /proc/net/tcp and route write it: one number, in
// the byte order of the machine. All machines that run sealer are little endian
// but s390x.
func address4(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, false
	}
	slices.Reverse(b)
	return netip.AddrFrom4([4]byte(b)), true
}

// address6 reads 32 hex digits in the order of the wire, as ipv6_route has them.
func address6(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom16([16]byte(b)), true
}

// words6 reads 32 hex digits as /proc/net/tcp6 has them: four numbers in the
// byte order of the machine.
func words6(s string) (netip.Addr, bool) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return netip.Addr{}, false
	}
	for i := 0; i < 16; i += 4 {
		slices.Reverse(b[i : i+4])
	}
	return netip.AddrFrom16([16]byte(b)).Unmap(), true
}

// The states of a socket in /proc/net that take its port.
const (
	tcpListen = "0A"
	udpBound  = "07"
)

// ports reads which ports are taken, and by which program.
func (m *machine) ports() {
	owners := m.socketOwners()
	seen := map[plan.Listener]bool{}
	for _, table := range []struct{ name, network, state string }{
		{"tcp", "tcp", tcpListen}, {"tcp6", "tcp", tcpListen}, {"udp", "udp", udpBound}, {"udp6", "udp", udpBound},
	} {
		for i, l := range m.lines("listening", "/proc/net/"+table.name) {
			words := strings.Fields(l)
			if i == 0 || len(words) < 10 || words[3] != table.state {
				continue
			}
			if p, ok := socket(words[1]); ok {
				at := plan.Listener{Network: table.network, Address: p.Addr().String(), Port: int(p.Port()), Program: owners[words[9]]}
				if !seen[at] {
					seen[at] = true
					m.facts.Listening = append(m.facts.Listening, at)
				}
			}
		}
	}
	slices.SortFunc(m.facts.Listening, func(a, b plan.Listener) int {
		if a.Port != b.Port {
			return a.Port - b.Port
		}
		return strings.Compare(a.Network+a.Address, b.Network+b.Address)
	})
}

// socket reads ADDRESS:PORT in hex.
func socket(s string) (netip.AddrPort, bool) {
	addr, port, _ := strings.Cut(s, ":")
	a, ok := address4(addr)
	if !ok {
		a, ok = words6(addr)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	return netip.AddrPortFrom(a, uint16(n)), ok && err == nil
}

// socketOwners returns the programs that hold sockets, by inode.
func (m *machine) socketOwners() map[string]string {
	owners := map[string]string{}
	for _, fd := range m.glob("/proc/[0-9]*/fd/*") {
		to, err := os.Readlink(m.path(fd))
		if err != nil { // the process has ended, or is another user's
			continue
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			process := filepath.Dir(filepath.Dir(fd))
			comm, err := os.ReadFile(m.path(process + "/comm"))
			if err == nil {
				owners[strings.TrimSuffix(inode, "]")] = string(bytes.TrimSpace(comm))
			}
		}
	}
	return owners
}

// names reads resolv.conf, /etc/hosts and the proxies that are set.
func (m *machine) names() {
	for _, l := range m.lines("nameservers", "/etc/resolv.conf") {
		if words := strings.Fields(l); len(words) > 1 && words[0] == "nameserver" {
			m.facts.Nameservers = append(m.facts.Nameservers, words[1])
		}
	}
	for _, l := range m.lines("hosts", "/etc/hosts") {
		l, _, _ = strings.Cut(l, "#")
		if words := strings.Fields(l); len(words) > 1 {
			m.facts.Hosts = append(m.facts.Hosts, plan.HostsEntry{Address: words[0], Names: words[1:]})
		}
	}
	env := m.lines("proxies", "/etc/environment")
	if m.live {
		env = append(env, os.Environ()...)
	}
	for _, l := range env {
		name, value, ok := strings.Cut(strings.TrimPrefix(l, "export "), "=")
		v := plan.Variable{Name: name, Value: withoutPassword(strings.Trim(value, `"'`))}
		if ok && v.Value != "" && strings.HasSuffix(strings.ToLower(name), "_proxy") && !slices.Contains(m.facts.Proxies, v) {
			m.facts.Proxies = append(m.facts.Proxies, v)
		}
	}
	slices.SortFunc(m.facts.Proxies, func(a, b plan.Variable) int { return strings.Compare(a.Name+"="+a.Value, b.Name+"="+b.Value) })
}

// withoutPassword takes user and password out of a proxy's URL. Where there may
// be one and it cannot be told apart, nothing is left.
func withoutPassword(s string) string {
	if !strings.Contains(s, "@") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return "(set)"
	}
	u.User = nil
	return u.String()
}
