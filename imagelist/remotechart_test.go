package imagelist

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// chartArchive packs a chart with one pod of an image of its name, as helm package
// does.
func chartArchive(t *testing.T, name, version string, dependencies ...*chart.Dependency) *ChartArchive {
	t.Helper()
	file, err := chartutil.Save(&chart.Chart{
		Metadata:  &chart.Metadata{APIVersion: "v2", Name: name, Version: version, Dependencies: dependencies},
		Templates: []*chart.File{{Name: "templates/pod.yaml", Data: []byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: quay.io/x/" + name + ":" + version + "}]}\n")}},
	}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return &ChartArchive{File: path.Base(file), Version: version, Data: data}
}

func TestCheckArchive(t *testing.T) {
	t.Parallel()
	data := chartArchive(t, "a", "1.2.0").Data
	for _, tc := range []struct {
		data          []byte
		name, version string
		ok            bool
	}{
		{data, "a", "1.2.0", true}, {data, "a", "v1.2", true}, {data, "b", "1.2.0", false}, {data, "a", "1.2.1", false}, {data, "a", "latest", false}, {data[:50], "a", "1.2.0", false}, {nil, "a", "1.2.0", false},
	} {
		if err := CheckArchive(tc.data, tc.name, tc.version); (err == nil) != tc.ok {
			t.Errorf("%s %s: %v", tc.name, tc.version, err)
		}
	}
}

// TestRemoteDependencies renders a chart with the dependencies that it does not
// carry, and with theirs, as helm dependency build brings them.
func TestRemoteDependencies(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n"
	inner := chart.Dependency{Name: "inner", Version: "~3.0", Repository: "https://r.io"}
	for name, tc := range map[string]struct {
		dependencies, lock string
		asked, images      []string
		gap                string
	}{
		"one":            {"- {name: dep, version: 2.0.0, repository: https://r.io}\n", "", []string{"repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, ""},
		"a range":        {"- {name: dep, version: ^2.0.0, repository: https://r.io}\n", "", []string{"repo+https://r.io#dep@^2.0.0"}, []string{"dep:2.0.0"}, ""},
		"locked":         {"- {name: dep, version: ^2.0.0, repository: https://r.io}\n", "- {name: dep, repository: https://r.io, version: 2.0.0}", []string{"repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, ""},
		"locked, any":    {"- {name: dep, repository: https://r.io}\n", "- {name: dep, repository: https://r.io, version: 2.0.0}", []string{"repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, ""},
		"other locks":    {"- {name: dep, version: ^2.0.0, repository: https://r.io}\n", "- {name: dip, repository: https://r.io, version: 2.0.1}\n- {name: dep, repository: https://o.io, version: 2.0.2}\n- {name: dep, repository: https://r.io, version: 3.0.0}", []string{"repo+https://r.io#dep@^2.0.0"}, []string{"dep:2.0.0"}, ""},
		"an alias":       {"- {name: dep, version: 2.0.0, repository: https://r.io}\n- {name: dep, alias: two, version: 2.0.0, repository: https://r.io}\n", "", []string{"repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, ""},
		"two, of a name": {"- {name: \"@known\"}\n- {name: dep, version: 2.0.0, repository: \"@local\"}\n", "", nil, nil, "its repository @local is a name"},
		"not there":      {"- {name: gone, version: 1.0.0, repository: https://r.io}\n- {name: dep, version: 2.0.0, repository: https://r.io}\n", "", []string{"repo+https://r.io#gone@1.0.0", "repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, "repo+https://r.io#gone@1.0.0: no such chart"},
		"of another":     {"- {name: outer, version: 1.0.0, repository: oci://r.io/c}\n", "", []string{"oci://r.io/c/outer:1.0.0"}, []string{"outer:1.0.0"}, "inner ~3.0: a dependency declares it"},
		"of one inside":  {"- {name: sub, version: 1.0.0}\n", "", []string{"repo+https://r.io#dep@2.0.0"}, []string{"dep:2.0.0"}, ""},
	} {
		fsys := fstest.MapFS{
			"charts/app/Chart.yaml":         {Data: []byte(head + tc.dependencies)},
			"charts/app/templates/pod.yaml": {Data: []byte("apiVersion: v1\nkind: Pod\nspec: {containers: [{image: quay.io/x/app:1}]}\n")},
		}
		if strings.Contains(tc.dependencies, "sub") {
			fsys["charts/app/charts/sub/Chart.yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(head, "app", "sub", 1) + "- {name: dep, version: 2.0.0, repository: https://r.io}\n")}
		}
		if tc.lock != "" {
			fsys["charts/app/Chart.lock"] = &fstest.MapFile{Data: []byte("digest: x\ndependencies:\n" + tc.lock + "\n")}
		}
		var asked []string
		res, err := Scan(t.Context(), fsys, Options{Lenient: true, Charts: func(_ context.Context, source string) (*ChartArchive, error) {
			asked = append(asked, source)
			switch {
			case strings.Contains(source, "dep"):
				return chartArchive(t, "dep", "2.0.0"), nil
			case strings.Contains(source, "outer"):
				return chartArchive(t, "outer", "1.0.0", &inner), nil
			}
			return nil, errors.New("no such chart")
		}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var found []string
		for _, f := range res.Found {
			if image := strings.TrimPrefix(f.Reference.String(), "quay.io/x/"); image != "app:1" {
				found = append(found, image)
			}
		}
		slices.Sort(found)
		if diff := cmp.Diff(tc.asked, asked); diff != "" {
			t.Errorf("%s: asked (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(tc.images, found); diff != "" {
			t.Errorf("%s: found (-want +got):\n%s", name, diff)
		}
		if told := fmt.Sprint(res.Gaps); !strings.Contains(told, tc.gap) || tc.gap == "" && bytes.Contains([]byte(told), []byte("depend")) {
			t.Errorf("%s: no %q in %s", name, tc.gap, told)
		}
	}
}
