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

// FuzzScan reads arbitrary text as a manifest, an image list and rules.
// Whatever it is, the scan ends, gives the same result twice, and every
// reference found parses as what it is printed as.
func FuzzScan(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		twice(t, data, fstest.MapFS{
			"manifests/a.yaml":       {Data: data},
			"manifests/b.yaml.tmpl":  {Data: data},
			"manifests/imageList":    {Data: data},
			"etc/c":                  {Data: data},
			"imageListWithAuth.yaml": {Data: data},
		})
	})
}

// FuzzChart does the same with arbitrary text as a chart's template and its
// values.
func FuzzChart(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		twice(t, nil, fstest.MapFS{
			"charts/c/Chart.yaml":       {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
			"charts/c/values.yaml":      {Data: data},
			"charts/c/templates/t.yaml": {Data: data},
		})
	})
}

// seed adds every file of the golden tests.
func seed(f *testing.F) {
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
}

func twice(t *testing.T, rules []byte, fsys fstest.MapFS) {
	scan := func() string {
		res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{Rules: rules})
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
}
