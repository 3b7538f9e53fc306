package imagelist

import (
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Helm's built-in API versions come from helmkube, whose list has to be the one
// that Helm has with Kubernetes' own modules.
func TestBuiltInAPIVersions(t *testing.T) {
	t.Parallel()
	got := chartutil.DefaultVersionSet
	if len(got) != 57 {
		t.Errorf("%d API versions, want 57", len(got))
	}
	for _, want := range []string{"v1", "apps/v1", "extensions/v1beta1", "policy/v1beta1", "batch/v1beta1", "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1", "rbac.authorization.k8s.io/v1alpha1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not built in", want)
		}
	}
}

// A template that looks a cluster's object up finds nothing, also where the
// renderer is told of a cluster.
func TestLookupAsksNobody(t *testing.T) {
	t.Parallel()
	c := &chart.Chart{
		Metadata:  &chart.Metadata{Name: "c", Version: "1.0.0"},
		Templates: []*chart.File{{Name: "templates/a", Data: []byte(`{{ len (lookup "v1" "Secret" "default" "s") }}`)}},
	}
	out, err := engine.Render(c, chartutil.Values{"Values": map[string]any{}, "Capabilities": chartutil.DefaultCapabilities})
	if err != nil || out["c/templates/a"] != "0" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := engine.RenderWithClient(c, chartutil.Values{"Values": map[string]any{}}, nil); err == nil {
		t.Errorf("a cluster was asked: %q", out)
	}
}
