package registry_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// BenchmarkServe pulls over loopback: one large blob, one small one, a manifest
// by its tag, with one layer and with twenty.
func BenchmarkServe(b *testing.B) {
	big := registrytest.Image{Name: "big:1", Layers: []registrytest.Layer{{Name: "big", Size: 64 << 20}, {Name: "small", Size: 4 << 10}}}
	for _, n := range []int{1, 20} {
		layers := []*registrytest.DiskLayer{writeLayer(b, tree.NamingPath, []registrytest.Image{big})}
		for i := 1; i < n; i++ {
			layers = append(layers, writeLayer(b, tree.NamingPath, []registrytest.Image{{Name: fmt.Sprintf("other%d:1", i)}}))
		}
		m := manifest(b, layers[0].Content("big:1"))
		s := serve(b, newHandler(b, registry.Options{}, layers...), registry.ServerOptions{})
		for name, path := range map[string]string{
			"large":    "blobs/" + m.Layers[0].Digest.String(),
			"small":    "blobs/" + m.Layers[1].Digest.String(),
			"manifest": "manifests/1",
		} {
			b.Run(fmt.Sprintf("%s/layers=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					resp, err := http.Get(s.URL() + "/v2/library/big/" + path)
					if err != nil {
						b.Fatal(err)
					}
					got, err := io.Copy(io.Discard, resp.Body)
					if err != nil || resp.StatusCode != http.StatusOK {
						b.Fatal(resp.Status, err)
					}
					resp.Body.Close()
					if strings.HasPrefix(name, "large") {
						b.SetBytes(got)
					}
				}
			})
		}
	}
}
