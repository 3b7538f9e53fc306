package registry_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/tree"
)

// FuzzServe asks for whatever path: the handler must not fail, and what it says
// is a digest's content must be that.
func FuzzServe(f *testing.F) {
	l := writeLayer(f, tree.NamingPath, few())
	h := newHandler(f, registry.Options{}, l)
	c := l.Content("nginx")
	for _, path := range []string{
		"/v2/", "/v2/_catalog", "/v2/library/nginx/tags/list", "/v2/library/nginx/manifests/latest",
		"/v2/docker.io/library/nginx/manifests/" + c.Root.Digest.String(), "/v2/library/nginx/blobs/" + manifest(f, c).Layers[0].Digest.String(),
		"/v2/../manifests/latest", "/v2/library/nginx/blobs/sha256:../../x", "/v2//manifests//blobs/", "/healthz/../v2/a/tags/list",
	} {
		f.Add(path, "docker.io")
		f.Add(path, "")
	}
	f.Fuzz(func(t *testing.T, path, ns string) {
		u := &url.URL{Scheme: "http", Host: "registry", Path: path, RawQuery: url.Values{"ns": {ns}}.Encode()}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
		if err != nil {
			return
		}
		r.RequestURI = r.URL.RequestURI()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("GET %s: %d %s", u, w.Code, w.Body)
		}
		if d := w.Header().Get("Docker-Content-Digest"); w.Code == http.StatusOK && d != "" && digest.FromBytes(w.Body.Bytes()).String() != d {
			t.Fatalf("GET %s: the content is not %s", u, d)
		}
	})
}
