package node

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/cluster/kube"
)

func TestAnnotated(t *testing.T) {
	t.Parallel()
	for _, manifest := range []string{
		"kind: Pod\nmetadata:\n  name: etcd\nspec:\n  priority: 2000001000\n",
		"kind: Pod\nmetadata:\n  name: etcd\n  annotations:\n    a: b\n    sealer.io/certificates-renewed: old\nspec:\n  priority: 2000001000\n",
	} {
		b, err := annotated([]byte(manifest), "now")
		if err != nil {
			t.Fatal(err)
		}
		var pod struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
			Spec struct{ Priority json.Number }
		}
		if err := yaml.Unmarshal(b, &pod); err != nil {
			t.Fatal(err)
		}
		if pod.Metadata.Annotations[renewedAt] != "now" || pod.Metadata.Name != "etcd" || pod.Spec.Priority != "2000001000" {
			t.Errorf("%s became %s", manifest, b)
		}
		if strings.Contains(manifest, "a: b") && pod.Metadata.Annotations["a"] != "b" {
			t.Errorf("the annotation a is gone: %s", b)
		}
	}
	for _, bad := range []string{"", "[]", "metadata: text", "{"} {
		if _, err := annotated([]byte(bad), "now"); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestStampedReady(t *testing.T) {
	t.Parallel()
	const ready = `"status":{"conditions":[{"type":"Ready","status":"True"}]}`
	for pods, want := range map[string]string{
		`{"items":[{"metadata":{"annotations":{"sealer.io/certificates-renewed":"s"}},` + ready + `}]}`:   "",
		`{"items":[{"metadata":{"annotations":{"sealer.io/certificates-renewed":"s"}}}]}`:                 "no condition",
		`{"items":[{"metadata":{"annotations":{"sealer.io/certificates-renewed":"old"}},` + ready + `}]}`: "has not started it yet",
		`{"items":[]}`: "has not started it yet",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("labelSelector") != "component=etcd" {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = w.Write([]byte(pods))
		}))
		k, err := kube.New(kube.Config{Server: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		err = stampedReady(t.Context(), k, "etcd", "s")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", pods, err, want)
		}
		s.Close()
	}
}
