package node

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// kernelTables are what kube-proxy and network plugins fill beside iptables: the
// tables of nftables, as "nft list tables" prints them, the names of IP sets, and
// the virtual services of IPVS, whose number alone counts.
type kernelTables struct {
	NFT  []string `json:"nft,omitempty"`
	Sets []string `json:"sets,omitempty"`
	IPVS int      `json:"ipvs,omitempty"`
}

// readKernelTables reads what the machine's programs can tell: a machine without
// nft or ipset has no list.
func readKernelTables(ctx context.Context) kernelTables {
	var t kernelTables
	lines := func(args ...string) []string {
		text, err := capture(ctx, args...)
		if err != nil { // a kernel without them has none
			return nil
		}
		return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	}
	t.NFT, t.Sets = lines("nft", "list", "tables"), lines("ipset", "list", "-name")
	if b, err := os.ReadFile("/proc/net/ip_vs"); err == nil {
		for line := range strings.SplitSeq(string(b), "\n") {
			if strings.HasPrefix(line, "TCP ") || strings.HasPrefix(line, "UDP ") || strings.HasPrefix(line, "SCTP ") {
				t.IPVS++
			}
		}
	}
	return t
}

// pluginTable tells a table of nftables that kube-proxy or a network plugin
// made: "table ip kube-proxy". Those of iptables are restoreFilter's.
func pluginTable(line string) bool {
	words := strings.Fields(line)
	return len(words) == 3 && slices.ContainsFunc([]string{"kube-proxy", "cni_", "flannel-", "calico", "cilium"}, func(p string) bool {
		return strings.HasPrefix(words[2], p)
	})
}

// pluginSet tells an IP set of kube-proxy or a network plugin.
func pluginSet(name string) bool {
	return slices.ContainsFunc([]string{"KUBE-", "cali", "WEAVE", "weave-"}, func(p string) bool { return strings.HasPrefix(name, p) })
}

// restoreKernelTables removes what was added and belongs to Kubernetes. Rules
// that used the sets are gone by then. say is told of what is left because the
// machine has no program for it.
func restoreKernelTables(ctx context.Context, before, now kernelTables, say func(string)) error {
	var errs []error
	for _, line := range now.NFT {
		if pluginTable(line) && !slices.Contains(before.NFT, line) {
			_, err := capture(ctx, append([]string{"nft", "delete"}, strings.Fields(line)...)...)
			errs = append(errs, err)
		}
	}
	if now.IPVS > before.IPVS {
		switch {
		case before.IPVS > 0:
			say("IPVS had virtual services before the cluster and has more now: which are the cluster's is not known: look at them with ipvsadm -Ln")
		case !installed("ipvsadm"):
			say("the virtual services of kube-proxy stay in IPVS until the machine starts anew: it has no ipvsadm to clear them")
		default:
			_, err := capture(ctx, "ipvsadm", "--clear")
			errs = append(errs, err)
		}
	}
	for _, name := range now.Sets {
		if pluginSet(name) && !slices.Contains(before.Sets, name) {
			_, err := capture(ctx, "ipset", "destroy", name)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// installed says whether the machine has a program.
func installed(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
