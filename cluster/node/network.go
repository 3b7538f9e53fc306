package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
)

// A network is the part of a machine's network settings that Kubernetes and its
// network plugins change and leave changed.
type network struct {
	Interfaces []string          `json:"interfaces"`
	Routes     []string          `json:"routes"` // of IPv4, as "ip route" prints them
	Tables     map[string]string `json:"tables"` // by program, as iptables-save prints
	kernelTables
}

// filters are the programs that print and take packet filters.
func filters() [][2]string {
	return [][2]string{{"iptables-save", "iptables-restore"}, {"ip6tables-save", "ip6tables-restore"}}
}

func readNetwork(ctx context.Context) (network, error) {
	n := network{Tables: map[string]string{}}
	all, err := net.Interfaces()
	if err != nil {
		return n, err
	}
	for _, i := range all {
		n.Interfaces = append(n.Interfaces, i.Name)
	}
	routes, err := capture(ctx, "ip", "-4", "route", "show")
	if err != nil {
		return n, err
	}
	for line := range strings.SplitSeq(routes, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			n.Routes = append(n.Routes, line)
		}
	}
	for _, f := range filters() {
		// A kernel without this filter has no rules either.
		if text, err := capture(ctx, f[0]); err == nil {
			n.Tables[f[0]] = text
		}
	}
	n.kernelTables = readKernelTables(ctx)
	return n, nil
}

// saveNetwork keeps the network as it is in the journal's directory and returns
// the digest of that.
func (w *Work) saveNetwork(ctx context.Context) (string, error) {
	var n network
	if w.Root == "/" {
		var err error
		if n, err = readNetwork(ctx); err != nil {
			return "", fmt.Errorf("network: %w", err)
		}
	}
	b, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	return w.Journal.Save(strings.NewReader(string(b)))
}

// restoreNetwork removes the interfaces, routes and packet filters that were
// added since saveNetwork and belong to Kubernetes or a network plugin. It
// knows them by their names, or by an address in one of the networks of pods.
func (m *Machine) restoreNetwork(ctx context.Context, saved string, pods []string, say func(string)) error {
	if m.Root != "/" || saved == "" {
		return nil
	}
	f, err := m.Journal.OpenSaved(saved)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	var before network
	if err := json.Unmarshal(b, &before); err != nil {
		return fmt.Errorf("network: %w", err)
	}
	now, err := readNetwork(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range now.Routes {
		if !slices.Contains(before.Routes, r) && !strings.Contains(r, "proto kernel") {
			_, err := capture(ctx, append([]string{"ip", "-4", "route", "del"}, strings.Fields(r)...)...)
			errs = append(errs, err)
		}
	}
	for _, i := range now.Interfaces {
		if !slices.Contains(before.Interfaces, i) && (pluginInterface(i) || hasAddress(i, pods)) {
			_, err := capture(ctx, "ip", "link", "del", i)
			if _, gone := net.InterfaceByName(i); gone != nil {
				err = nil // it went with its other end
			}
			errs = append(errs, err)
		}
	}
	for _, f := range filters() {
		errs = append(errs, restoreFilter(ctx, f, before.Tables[f[0]], now.Tables[f[0]]))
	}
	errs = append(errs, restoreKernelTables(ctx, before.kernelTables, now.kernelTables, say))
	return errors.Join(errs...)
}

// pluginInterface tells interfaces of network plugins and kube-proxy by name: an
// interface of the machine's owner that came meanwhile stays.
func pluginInterface(name string) bool {
	return slices.ContainsFunc([]string{"cni", "veth", "flannel", "cali", "tunl", "kube-", "cilium", "lxc", "nodelocaldns", "weave", "vxlan"}, func(p string) bool {
		return strings.HasPrefix(name, p)
	})
}

// hasAddress says whether an interface has an address in one of the networks.
func hasAddress(name string, networks []string) bool {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return false
	}
	addresses, err := i.Addrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(networks, func(n string) bool {
		p, err := netip.ParsePrefix(n)
		return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
			own, err := netip.ParsePrefix(a.String())
			return err == nil && p.Contains(own.Addr())
		})
	})
}

// pluginRule tells a line of a packet filter that Kubernetes or a network plugin
// wrote.
func pluginRule(line string) bool {
	return slices.ContainsFunc([]string{"KUBE-", "CNI-", "FLANNEL", "flanneld", "cali-", "cali:", "CILIUM", "WEAVE"}, func(p string) bool {
		return strings.Contains(line, p)
	})
}

// restoreFilter loads the rules without the rules of Kubernetes. Tables that
// were not there before and are empty then are removed, where nft can.
func restoreFilter(ctx context.Context, f [2]string, before, now string) error {
	if before == now {
		return nil
	}
	var kept []string
	for line := range strings.SplitSeq(now, "\n") {
		if !pluginRule(line) {
			kept = append(kept, line)
		}
	}
	cmd := exec.CommandContext(ctx, f[1])
	cmd.Stdin = strings.NewReader(strings.Join(kept, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w: %s", f[1], err, strings.TrimSpace(string(out)))
	}
	family := "ip"
	if strings.HasPrefix(f[0], "ip6") {
		family = "ip6"
	}
	for table, rules := range filterTables(kept) {
		if rules == 0 && !strings.Contains(before, "*"+table+"\n") {
			// With the older filter there is no such table for nft, and nothing to do.
			_ = exec.CommandContext(ctx, "nft", "delete", "table", family, table).Run()
		}
	}
	return nil
}

// filterTables counts the rules of each table.
func filterTables(lines []string) map[string]int {
	out := map[string]int{}
	table := ""
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "*"):
			table = l[1:]
			out[table] += 0
		case strings.HasPrefix(l, "-A"):
			out[table]++
		}
	}
	return out
}
