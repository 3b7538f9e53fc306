package imagelist_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/clusterimage/sealer/imagelist"
)

// A scan reads a rootfs, any fs.FS, and says which images a cluster will pull
// because of it, and where each is named.
func ExampleScan() {
	rootfs := fstest.MapFS{
		"manifests/imageList": {Data: []byte("busybox:1.36\n")},
		"manifests/web.yaml": {Data: []byte(`apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    spec:
      containers:
      - name: web
        image: nginx:1.27
        args: [--sidecar-image=quay.io/app/sidecar:v2]
`)},
	}
	result, err := imagelist.Scan(context.Background(), rootfs, imagelist.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, im := range result.Mirror(false) {
		f := im.Findings[0]
		fmt.Printf("%s %s:%d %s\n", im.Reference, f.File, f.Line, f.Confidence)
	}
	fmt.Println(len(result.Gaps), "gaps")
	// Output:
	// docker.io/library/busybox:1.36 manifests/imageList:1 certain
	// docker.io/library/nginx:1.27 manifests/web.yaml:9 certain
	// quay.io/app/sidecar:v2 manifests/web.yaml:10 high
	// 0 gaps
}
