package imagelist_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/ref"
)

// FuzzScan reads arbitrary text as a manifest, an image list, a chart's
// template and its values. Whatever it is, the scan ends, gives the same
// result twice, and every reference found parses as what it is printed as.
func FuzzScan(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(data).Files {
			if file.Name != "want" {
				f.Add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fsys := fstest.MapFS{
			"manifests/a.yaml":          {Data: data},
			"manifests/b.json":          {Data: data},
			"manifests/c.yaml.tmpl":     {Data: data},
			"manifests/imageList":       {Data: data},
			"etc/d":                     {Data: data},
			"imageListWithAuth.yaml":    {Data: data},
			"charts/c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
			"charts/c/values.yaml":      {Data: data},
			"charts/c/templates/t.yaml": {Data: data},
		}
		scan := func() string {
			res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{Rules: data})
			for _, im := range res.Images() {
				if r, err := ref.Parse(im.Reference.String()); err != nil || r != im.Reference {
					t.Fatalf("found %v, which parses as %v, %v", im.Reference, r, err)
				}
			}
			return describe(res, err)
		}
		if diff := cmp.Diff(scan(), scan()); diff != "" {
			t.Fatalf("two scans differ:\n%s", diff)
		}
	})
}
