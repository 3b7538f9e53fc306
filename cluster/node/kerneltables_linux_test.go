package node

import (
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Tables of kube-proxy's nftables mode and of network plugins go; those of others
// stay. The test has a network of its own.
func TestKernelTables(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nft is missing")
	}
	runtime.LockOSThread() // the thread ends with the test, and its network with it
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skip(err)
	}
	nft := func(rules string) {
		t.Helper()
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("nft: %v: %s", err, out)
		}
	}
	nft("add table ip mine\nadd table ip cni_old\n")
	before := readKernelTables(t.Context())
	nft("add table ip kube-proxy\nadd chain ip kube-proxy services\nadd table ip6 kube-proxy\nadd table inet cni_hostport\nadd table ip later\n")
	var said []string
	if err := restoreKernelTables(t.Context(), before, readKernelTables(t.Context()), func(s string) { said = append(said, s) }); err != nil {
		t.Error(err)
	}
	want := []string{"table ip cni_old", "table ip later", "table ip mine"}
	got := readKernelTables(t.Context()).NFT
	slices.Sort(got)
	if !slices.Equal(got, want) || len(said) > 0 {
		t.Errorf("tables %q, want %q; said %q", got, want, said)
	}
}

// Sets and virtual services that the machine has no program for are told.
func TestKernelTablesSaid(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		before, now int
		want        string
	}{{0, 3, "no ipvsadm"}, {1, 3, "which are the cluster's is not known"}, {2, 2, ""}} {
		said := ""
		if err := restoreKernelTables(t.Context(), kernelTables{IPVS: c.before}, kernelTables{IPVS: c.now}, func(s string) { said = s }); err != nil {
			t.Error(err)
		}
		if (c.want == "") != (said == "") || !strings.Contains(said, c.want) {
			t.Errorf("%d services, then %d: said %q", c.before, c.now, said)
		}
	}
}
