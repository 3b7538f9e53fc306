package kubeadm

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/clusterimage/sealer/cluster/spec"
)

// FuzzDocuments: no documents of a user make a panic, for any version of
// kubeadm, and what is made can be read and filled.
func FuzzDocuments(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(text).Files[:2] {
			f.Add(file.Data, uint8(33))
		}
	}
	f.Add([]byte("kind: JoinConfiguration\ncontrolPlane: [1]\nnodeRegistration: {kubeletExtraArgs: [x]}\n"), uint8(27))
	f.Fuzz(func(t *testing.T, text []byte, minor uint8) {
		file, err := spec.Parse("f", text)
		if err != nil {
			return
		}
		o := Options{Version: Version{Major: 1, Minor: 15 + int(minor)%30}, Clusterfile: file.Kubeadm, CgroupDriver: "systemd", CgroupV1: minor%2 == 0, ReadOnlySysctl: true}
		n := Node{Name: "n", Address: netip.MustParseAddr("10.0.0.1"), Worker: true}
		_, _, _ = o.APIServer()
		for _, make := range []func(Material) (Documents, error){
			func(m Material) (Documents, error) { return Init(o, n, m) },
			func(m Material) (Documents, error) { return Join(o, n, m, "10.0.0.1:6443", true) },
		} {
			_, _ = make(material)
			d, err := make(Material{})
			if err != nil {
				return
			}
			out, err := d.YAML()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := material.Fill(out); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	})
}
