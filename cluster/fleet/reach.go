package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/spec"
)

// DefaultParallel is how many machines are worked on at once.
const DefaultParallel = 64

// A Machine is a machine of the Clusterfile that was reached.
type Machine struct {
	spec.Node
	Local bool // it is this machine
	Host  host.Host
	// Lost is why a machine that was spared could not be reached; Host is nil then.
	Lost error
}

// Label is the machine's address, which reports name it by.
func (m *Machine) Label() string { return m.Address.String() }

// A Fleet is the machines in the order of the Clusterfile. Close it.
type Fleet struct {
	Machines []*Machine
	dialer   *host.Dialer
}

// Reach connects to all machines. Their known_hosts files come after o's, and
// their secrets from sources. The error has a line for each machine that could
// not be reached; no machine stays connected then. A machine for which spare,
// which may be nil, returns true may be out of reach: its Lost says why. One that
// answers and lets nobody in is no such machine.
func Reach(ctx context.Context, nodes []spec.Node, o host.Options, sources spec.Sources, spare func(spec.Node) bool) (_ *Fleet, err error) {
	mine, err := localAddresses()
	if err != nil {
		return nil, err
	}
	f := &Fleet{}
	var targets []host.Target
	var remote []*Machine
	var errs []error
	for _, n := range nodes {
		m := &Machine{Node: n, Local: slices.Contains(mine, n.Address) && n.SSH.Port == 22}
		f.Machines = append(f.Machines, m)
		t, err := Target(n, sources)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Label(), err))
		}
		if m.Local {
			m.Host = &host.Local{Password: t.Password}
			continue
		}
		if n.SSH.KnownHosts != "" && !slices.Contains(o.KnownHosts, n.SSH.KnownHosts) {
			o.KnownHosts = append(slices.Clip(o.KnownHosts), n.SSH.KnownHosts)
		}
		targets, remote = append(targets, t), append(remote, m)
	}
	if err := errors.Join(errs...); err != nil || len(targets) == 0 {
		return f, err
	}
	if f.dialer, err = host.NewDialer(o); err != nil {
		return nil, err
	}
	hosts, dialErrs := f.dialer.ConnectAll(ctx, targets)
	for i, h := range hosts {
		if h != nil {
			remote[i].Host = h
		}
		if gone := new(host.UnreachableError); errors.As(dialErrs[i], &gone) && spare != nil && spare(remote[i].Node) {
			remote[i].Lost, dialErrs[i] = dialErrs[i], nil
		}
	}
	if err := errors.Join(dialErrs...); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close ends all connections.
func (f *Fleet) Close() error {
	for _, m := range f.Machines {
		if m.Host != nil {
			_ = m.Host.Close() // nothing is asked of it any more
		}
	}
	if f.dialer == nil {
		return nil
	}
	return f.dialer.Close()
}

// Select keeps the machines that have one of the roles, or one of the
// addresses or names. Without any, all stay. A word that fits no machine is an
// error.
func Select(nodes []spec.Node, roles, names []string) ([]spec.Node, error) {
	if len(roles)+len(names) == 0 {
		return nodes, nil
	}
	var errs []error
	fits := func(what, word string, has func(spec.Node) bool) func(spec.Node) bool {
		if !slices.ContainsFunc(nodes, has) {
			errs = append(errs, fmt.Errorf("the Clusterfile has no machine with the %s %s", what, word))
		}
		return has
	}
	var any []func(spec.Node) bool
	for _, r := range spec.Roles(roles) {
		any = append(any, fits("role", r, func(n spec.Node) bool { return slices.Contains(n.Roles, r) }))
	}
	for _, name := range names {
		any = append(any, fits("address or name", name, func(n spec.Node) bool { return n.Address.String() == name || n.Name == name }))
	}
	out := slices.DeleteFunc(slices.Clone(nodes), func(n spec.Node) bool {
		return !slices.ContainsFunc(any, func(f func(spec.Node) bool) bool { return f(n) })
	})
	return out, errors.Join(errs...)
}

// Target says how a machine is reached over SSH.
func Target(n spec.Node, from spec.Sources) (host.Target, error) {
	t := host.Target{Name: n.Name, Address: n.Address.String(), Port: n.SSH.Port, User: n.SSH.User}
	t.NoAgent = n.SSH.Agent != nil && !*n.SSH.Agent
	var passErr, keyErr error
	t.Password, passErr = n.SSH.Password(from)
	t.Passphrase, keyErr = n.SSH.KeyPassword(from)
	if n.SSH.Pk != "" {
		t.Keys = []string{n.SSH.Pk}
	}
	jump, jumpErr := jumps(n.SSH.Jump, t)
	t.Jump = jump
	return t, errors.Join(passErr, keyErr, jumpErr)
}

// jumps reads [user@]host[:port], several with commas, the nearest first. They
// are entered with the same keys and password as the machine behind.
func jumps(text string, t host.Target) ([]host.Target, error) {
	var chain []host.Target
	for at := range strings.SplitSeq(text, ",") {
		if at = strings.TrimSpace(at); at == "" {
			continue
		}
		j := t
		j.Name, j.Port, j.Jump = "", 0, nil
		if user, rest, ok := strings.Cut(at, "@"); ok {
			j.User, at = user, rest
		}
		j.Address = strings.Trim(at, "[]")
		if name, port, err := net.SplitHostPort(at); err == nil {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("jump host %s: the port is no number", at)
			}
			j.Address, j.Port = name, int(n)
		}
		chain = append(chain, j)
	}
	return chain, nil
}

// localAddresses are the addresses of this machine, loopback included.
func localAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list the addresses of this machine: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}

// LocalAddress returns the address by which others reach this machine, as far
// as that can be known: the one that the default route uses, else the first that
// is not loopback, else 127.0.0.1.
func LocalAddress() (string, error) {
	// Connecting UDP asks the routing table and sends nothing (192.0.2.0/24: RFC 5737).
	if c, err := net.Dial("udp4", "192.0.2.1:9"); err == nil {
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsLoopback() {
			return a.IP.String(), nil
		}
	}
	all, err := localAddresses()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(a netip.Addr) bool { return !a.IsLoopback() && !a.IsLinkLocalUnicast() })
	if i < 0 {
		return "127.0.0.1", nil
	}
	return all[i].String(), nil
}

// each calls f for n items at once, bounded.
func each(n, parallel int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(cmp.Or(parallel, DefaultParallel))
	for i := range n {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	_ = g.Wait() // no function returns an error
}
