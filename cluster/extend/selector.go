package extend

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// hosts returns the machines that a plugin works on at a moment: the machines
// that "on" and "scope" select, or the phase's when the plugin has neither.
func (t *translator) hosts(p spec.Plugin, m Moment) []spec.Node {
	on, scopes := strings.TrimSpace(p.On), p.Scopes()
	if on == "" && len(scopes) == 0 {
		if m.Where == OnFirst {
			return t.cluster[:min(1, len(t.cluster))] // the masters stand first
		}
		return t.nodes
	}
	all := t.nodes
	if m.Where == OnFirst {
		all = t.cluster
	}
	match, err := selector(on)
	if err != nil {
		t.fault(p, "on: %w", err)
		return nil
	}
	var out []spec.Node
	for i, n := range t.cluster {
		if !slices.ContainsFunc(all, func(a spec.Node) bool { return a.Address == n.Address }) {
			continue
		}
		if match(n) && (len(scopes) == 0 || inScope(n, i == 0, scopes)) {
			out = append(out, n)
		}
	}
	known := slices.ContainsFunc(t.cluster, func(n spec.Node) bool { return match(n) })
	if !known {
		t.fault(p, "on: no host of the cluster is meant by %q", on)
	}
	return out
}

func inScope(n spec.Node, first bool, scopes []string) bool {
	roles := spec.Roles(scopes)
	return first && slices.Contains(roles, "master0") || slices.ContainsFunc(n.Roles, func(r string) bool { return slices.Contains(roles, r) })
}

const rolePrefix = "node-role.kubernetes.io/"

// selector reads "on": a list of addresses, a role (master, role=master), or
// labels of the Clusterfile (k=v, k, separated by commas; the role's label
// counts).
func selector(on string) (func(spec.Node) bool, error) {
	if on == "" {
		return func(spec.Node) bool { return true }, nil
	}
	if addresses, err := spec.ParseAddresses(on); err == nil && len(addresses) > 0 {
		return func(n spec.Node) bool {
			return slices.ContainsFunc(addresses, func(a netip.AddrPort) bool { return a.Addr() == n.Address })
		}, nil
	} else if strings.Trim(on, "0123456789.:,- ") == "" {
		return nil, err
	}
	var tests []func(spec.Node) bool
	for word := range strings.SplitSeq(on, ",") {
		key, value, hasValue := strings.Cut(strings.TrimSpace(word), "=")
		role := ""
		switch {
		case key == "role":
			role = value
		case strings.HasPrefix(key, rolePrefix):
			role = strings.TrimPrefix(key, rolePrefix)
		case !hasValue && slices.Contains([]string{spec.RoleMaster, spec.RoleNode, "control-plane", "worker"}, key):
			role = key
		case !spec.LabelOK(key, value):
			return nil, fmt.Errorf("%q is no address, role or label", word)
		}
		if role != "" {
			role = cmp.Or(spec.Roles([]string{role})[0], role)
			tests = append(tests, func(n spec.Node) bool { return slices.Contains(n.Roles, role) })
			continue
		}
		tests = append(tests, func(n spec.Node) bool {
			v, ok := n.Labels[key]
			return ok && (!hasValue || v == value)
		})
	}
	return func(n spec.Node) bool {
		return !slices.ContainsFunc(tests, func(f func(spec.Node) bool) bool { return !f(n) })
	}, nil
}
