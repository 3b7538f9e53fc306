package transfer_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

// BenchmarkBlobs prints the processor time of work on an image by the number of
// its blobs: make bench-travel. Twice the blobs should take twice the time.
func BenchmarkBlobs(b *testing.B) {
	for _, n := range []int{700, 2800} { // 4 blobs each
		b.Run(fmt.Sprintf("blobs=%d", n*blobsPerImage), func(b *testing.B) {
			for range b.N {
				s, dir := storetest.New(b), b.TempDir()
				unchanged := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("If-None-Match") != "" {
						w.WriteHeader(http.StatusNotModified)
					}
				}))
				defer unchanged.Close()
				host := strings.TrimPrefix(unchanged.URL, "http://")
				c, err := remote.New(remote.Options{RegistriesConf: "/dev/null", AuthFile: filepath.Join(dir, "auth.json"), CertsDir: dir, Insecure: []string{unchanged.URL}})
				if err != nil {
					b.Fatal(err)
				}
				to, err := ref.Parse(host + "/team/q:v1")
				if err != nil {
					b.Fatal(err)
				}
				report := func(name string, do func()) {
					before := figure.ProcessorTime()
					do()
					took := (figure.ProcessorTime() - before).Seconds()
					fmt.Printf("%6d blobs  %-20s %8.3f s\n", n*blobsPerImage, name, took)
					if err := figure.Add(figure.Figure{Name: "travel/" + name, Value: took, Unit: "CPU s", X: float64(n * blobsPerImage), XUnit: "blobs"}); err != nil {
						b.Error(err)
					}
				}
				var im *store.Image
				report("write and commit", func() { im = build(b, s, nil, 0, n, 0, "team/q:v1") })
				for range 2 { // the second knows the repository
					report("push again", func() {
						if _, err := transfer.Push(b.Context(), s, c, im.ID, to, transfer.PushOptions{}); err != nil {
							b.Error(err)
						}
					})
				}
				report("pull again", func() {
					if err := s.Tag(b.Context(), im.ID, to); err != nil {
						b.Error(err)
					}
					if _, err := transfer.Pull(b.Context(), s, c, to, remote.PullOptions{}); err != nil {
						b.Error(err)
					}
				})
				report("verify", func() {
					if _, err := s.Verify(b.Context(), im.ID, store.VerifyOptions{}); err != nil {
						b.Error(err)
					}
				})
				report("read the image", func() {
					if _, err := s.Image(b.Context(), im.ID, nil); err != nil {
						b.Error(err)
					}
				})
			}
		})
	}
}
