package imagelist_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/clusterimage/sealer/imagelist"
)

const schemaPod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: \"quay.io/x/app:{{ .Values.tag }}\"}]}\n"

func schemaChart(schema, values string) fstest.MapFS {
	return fstest.MapFS{
		"charts/c/Chart.yaml":         {Data: []byte("apiVersion: v2\nname: c\nversion: 1.0.0\n")},
		"charts/c/values.yaml":        {Data: []byte(values)},
		"charts/c/values.schema.json": {Data: []byte(schema)},
		"charts/c/templates/pod.yaml": {Data: []byte(schemaPod)},
	}
}

// TestSchemaStaysHere lets schemas name other schemas in every way that a
// compiler would follow. Nothing is asked, nothing is read, and the chart is
// rendered.
func TestSchemaStaysHere(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	for name, schema := range map[string]string{
		"ref":      fmt.Sprintf(`{"properties":{"tag":{"$ref":"%s/a"}}}`, server.URL),
		"relative": fmt.Sprintf(`{"$id":"%s/dir/","properties":{"tag":{"$ref":"other.json"}}}`, server.URL),
		"dialect":  fmt.Sprintf(`{"$schema":"%s/dialect"}`, server.URL),
		"dynamic":  fmt.Sprintf(`{"$schema":"https://json-schema.org/draft/2020-12/schema","$dynamicRef":"%s/a"}`, server.URL),
		"file":     `{"properties":{"tag":{"$ref":"file:///etc/passwd"}}}`,
		"https":    `{"properties":{"tag":{"$ref":"https://127.0.0.1:1/a"}}}`,
	} {
		res, err := imagelist.Scan(t.Context(), schemaChart(schema, "tag: v1\n"), imagelist.Options{})
		if err != nil || len(res.Images()) != 1 || len(res.Gaps) != 0 {
			t.Errorf("%s: found %v with gaps %v, error %v, want one image", name, res.Images(), res.Gaps, err)
		}
		if !strings.Contains(strings.Join(res.Warnings, "\n"), "values.schema.json of c: ") {
			t.Errorf("%s: warnings %q do not say that the schema was not applied", name, res.Warnings)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times, want never", n)
	}
}

// TestSchemaText tells every value that a schema refuses, a subchart's too.
func TestSchemaText(t *testing.T) {
	t.Parallel()
	fsys := schemaChart(`{"required":["token"],"properties":{"tag":{"type":"string"},"count":{"type":"integer"}}}`, "tag: 1\ncount: x\nd: {port: many}\n")
	fsys["charts/c/charts/d/Chart.yaml"] = &fstest.MapFile{Data: []byte("apiVersion: v2\nname: d\nversion: 1.0.0\n")}
	fsys["charts/c/charts/d/values.schema.json"] = &fstest.MapFile{Data: []byte(`{"properties":{"port":{"type":"number"}}}`)}
	res, err := imagelist.Scan(t.Context(), fsys, imagelist.Options{})
	if err != nil || len(res.Gaps) != 1 {
		t.Fatalf("gaps %v, error %v, want one gap", res.Gaps, err)
	}
	for _, want := range []string{"c: ", "token", "'/tag'", "'/count'", "d: ", "'/port'"} {
		if !strings.Contains(res.Gaps[0].Reason, want) {
			t.Errorf("the gap %q does not say %s", res.Gaps[0].Reason, want)
		}
	}
	broken, err := imagelist.Scan(t.Context(), schemaChart(`{"type": 1`, "tag: v1\n"), imagelist.Options{})
	if err != nil || len(broken.Gaps) != 1 {
		t.Errorf("a schema that is no JSON: gaps %v, error %v, want one gap", broken.Gaps, err)
	}
}

// TestManyFaults prints a bounded number of them and counts the rest.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("---\nkind: [\n", 5000)
	_, err := imagelist.Scan(t.Context(), fstest.MapFS{"manifests/a.yaml": {Data: []byte(content)}}, imagelist.Options{})
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != 21 || lines[20] != "and 4980 more faults" {
		t.Errorf("%d lines, the last %q, want 20 faults and a count", len(lines), lines[len(lines)-1])
	}
}
