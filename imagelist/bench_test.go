package imagelist_test

import (
	"bytes"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/clusterimage/sealer/imagelist"
)

// BenchmarkDocuments shows that the cost grows with the number of documents.
func BenchmarkDocuments(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var bundle bytes.Buffer
			for i := range n {
				fmt.Fprintf(&bundle, deployment, i, i%50)
			}
			bench(b, fstest.MapFS{"manifests/bundle.yaml": {Data: bundle.Bytes()}}, n, "docs/s")
		})
	}
}

// BenchmarkCharts shows that the cost grows with the number of charts.
func BenchmarkCharts(b *testing.B) {
	for _, n := range []int{1, 10, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			fsys := fstest.MapFS{}
			for i := range n {
				dir := fmt.Sprintf("charts/c%d/", i)
				fsys[dir+"Chart.yaml"] = &fstest.MapFile{Data: fmt.Appendf(nil, "apiVersion: v2\nname: c%d\nversion: 1.0.0\n", i)}
				fsys[dir+"values.yaml"] = &fstest.MapFile{Data: []byte("image: {repository: quay.io/x/app, tag: v1}\n")}
				for j := range 20 {
					fsys[fmt.Sprintf("%stemplates/t%d.yaml", dir, j)] = &fstest.MapFile{Data: fmt.Appendf(nil, deployment, j, j)}
				}
			}
			bench(b, fsys, n, "charts/s")
		})
	}
}

func bench(b *testing.B, fsys fstest.MapFS, n int, unit string) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := imagelist.Scan(b.Context(), fsys, imagelist.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), unit)
}

const deployment = `---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app%d
  labels: {app.kubernetes.io/name: app}
spec:
  replicas: 2
  template:
    spec:
      initContainers:
      - name: init
        image: busybox:1.36
      containers:
      - name: app
        image: quay.io/x/app:v%d
        args: ["--worker-image=quay.io/x/worker:v1", "--listen=:8080"]
        env:
        - {name: HELPER_IMAGE, value: "quay.io/x/helper:v1"}
        - {name: LOG_LEVEL, value: info}
        ports: [{containerPort: 8080}]
`
