package kubeadm

import (
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/clusterimage/sealer/cluster/spec"
)

var update = flag.Bool("update", false, "rewrite the goldens")

var material = Material{
	Token: "abcdef.0123456789abcdef", CertificateKey: strings.Repeat("0a", 32), CAHashes: []string{"sha256:" + strings.Repeat("b1", 32)},
}

func documents(t *testing.T, name string, text []byte) []spec.Document {
	t.Helper()
	f, err := spec.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return f.Kubeadm
}

// TestGolden makes the documents of a cluster for each version. The goldens are
// also given to a real kubeadm of that version where SEALER_TEST_KUBEADM names
// one.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			golden(t, path)
		})
	}
}

func golden(t *testing.T, path string) {
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := map[string][]byte{}
	for _, f := range ar.Files {
		in[f.Name] = f.Data
	}
	version, err := ParseVersion(strings.TrimSuffix(strings.Fields(string(ar.Comment))[1], ":"))
	if err != nil {
		t.Fatal(err)
	}
	nodes := []Node{
		{Name: "m1", Address: netip.MustParseAddr("10.0.0.1"), Worker: true},
		{Name: "m2", Address: netip.MustParseAddr("10.0.0.2"), CRISocket: "/run/other.sock"},
		{Name: "n1", Address: netip.MustParseAddr("10.0.0.3")},
	}
	o := Options{
		Version: version, Clusterfile: documents(t, "Clusterfile", in["Clusterfile"]), Image: documents(t, "kubeadm.yml", in["kubeadm.yml"]),
		Masters: nodes[:2], Rootfs: "/rootfs", CgroupDriver: "cgroupfs", ReadOnlySysctl: true,
	}
	out := map[string]Documents{}
	for _, make := range []struct {
		name string
		f    func() (Documents, error)
	}{
		{"init", func() (Documents, error) { return Init(o, nodes[0], material) }},
		{"master", func() (Documents, error) { return Join(o, nodes[1], material, "10.0.0.1:6443", true) }},
		{"worker", func() (Documents, error) { return Join(o, nodes[2], material, "10.0.0.1:6443", false) }},
	} {
		docs, err := make.f()
		if err != nil {
			t.Fatal(err)
		}
		out[make.name] = docs
	}
	result := &txtar.Archive{Comment: ar.Comment, Files: ar.Files[:2]}
	for _, name := range []string{"init", "master", "worker"} {
		text, err := out[name].YAML()
		if err != nil {
			t.Fatal(err)
		}
		result.Files = append(result.Files, txtar.File{Name: name, Data: text})
		validate(t, version, text)
		if d := cmp.Diff(string(in[name]), string(text)); d != "" && !*update {
			t.Errorf("%s: %s", name, d)
		}
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(result), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// validate gives documents to a real kubeadm of the version.
func validate(t *testing.T, v Version, text []byte) {
	program := os.Getenv("SEALER_TEST_KUBEADM")
	if program == "" {
		return
	}
	have, err := exec.CommandContext(t.Context(), program, "version", "-o", "short").Output()
	if err != nil || strings.TrimSpace(string(have)) != v.String() {
		return
	}
	file := filepath.Join(t.TempDir(), "kubeadm.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), program, "config", "validate", "--config", file).CombinedOutput()
	if err != nil || strings.Contains(string(said), "unknown field") {
		t.Errorf("kubeadm %s: %v\n%s\n%s", v, err, said, text)
	}
	t.Logf("kubeadm %s: %s", v, said)
}
