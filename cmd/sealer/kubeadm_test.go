package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestInitBaseIsValid has a real kubeadm judge the configuration that sealer init
// base writes. The program is SEALER_KUBEADM, or the one among the programs of the
// test clusters: one file that is all of Kubernetes' programs by its name.
func TestInitBaseIsValid(t *testing.T) {
	t.Parallel()
	kubeadm := os.Getenv("SEALER_KUBEADM")
	if kubeadm == "" {
		kubeadm = unpackKubeadm(t)
	}
	out, err := exec.CommandContext(t.Context(), kubeadm, "config", "validate", "--config", "internal/cli/contexts/base/etc/kubeadm.yml").CombinedOutput()
	if err != nil {
		t.Errorf("kubeadm config validate: %v\n%s", err, out)
	}
}

func unpackKubeadm(t *testing.T) string {
	shared := cmp.Or(os.Getenv("SHARED"), "../shared")
	if !filepath.IsAbs(shared) {
		shared = filepath.Join("../..", shared) // of the repository
	}
	packed := filepath.Join(shared, "cluster/bin/hyper.xz")
	if _, err := os.Stat(packed); err != nil {
		t.Skipf("there is no kubeadm here: set SEALER_KUBEADM, or have %s", packed)
	}
	xz, err := exec.LookPath("xz")
	if err != nil {
		t.Skip("there is no xz here to unpack kubeadm")
	}
	kubeadm := filepath.Join(t.TempDir(), "kubeadm")
	f, err := os.OpenFile(kubeadm, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), xz, "-dc", packed)
	cmd.Stdout, cmd.Stderr = f, os.Stderr
	err = cmd.Run()
	if closing := f.Close(); err != nil || closing != nil {
		t.Fatalf("%v, %v", err, closing)
	}
	return kubeadm
}
