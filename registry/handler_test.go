package registry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

func newHandler(t testing.TB, o registry.Options, layers ...*registrytest.DiskLayer) *registry.Handler {
	t.Helper()
	var dirs []string
	for _, l := range layers {
		dirs = append(dirs, l.Dir)
		o.Documents = append(o.Documents, l.Document)
	}
	h, err := registry.NewHandler(t.Context(), registry.Dirs(dirs...), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// do sends a request; headers are pairs.
func do(h http.Handler, method, url string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, url, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func samples() []registrytest.Image { return registrytest.Samples() }

// TestServesEveryByte asks for every blob of images of each form under each of the
// names that a cluster or a user may have for it.
func TestServesEveryByte(t *testing.T) {
	t.Parallel()
	for _, naming := range []tree.Naming{tree.NamingPath, tree.NamingFull} {
		l := writeLayer(t, naming, few())
		h := newHandler(t, registry.Options{}, l)
		for _, r := range l.Images {
			c := l.Contents[r.String()]
			for _, at := range []struct{ name, query string }{
				{naming.Repository(r), ""},
				{r.Repository, ""},
				{r.Name(), ""},
				{r.Repository, "?ns=" + r.Registry},
				{naming.Repository(r), "?ns=" + ref.DefaultPrivate},
			} {
				base := "/v2/" + at.name
				w := do(h, "GET", base+"/manifests/"+r.Tag+at.query)
				if digest.FromBytes(w.Body.Bytes()) != c.Root.Digest || w.Header().Get("Docker-Content-Digest") != c.Root.Digest.String() ||
					w.Header().Get("Content-Type") != c.Root.MediaType {
					t.Fatalf("%s by %s: %d %v %s", r, at, w.Code, w.Header(), w.Body)
				}
				for d, want := range c.Blobs {
					kind := "/blobs/"
					if bytes.Contains(want, []byte(`"schemaVersion"`)) {
						kind = "/manifests/"
					}
					url := base + kind + d.String() + at.query
					if w := do(h, "GET", url); !bytes.Equal(w.Body.Bytes(), want) {
						t.Fatalf("GET %s: %d %s", url, w.Code, w.Body)
					}
					if w := do(h, "HEAD", url); w.Code != 200 || w.Body.Len() != 0 {
						t.Fatalf("HEAD %s: %d", url, w.Code)
					}
				}
			}
		}
	}
}

// TestNames asks for what is not there, or not under that name.
func TestNames(t *testing.T) {
	t.Parallel()
	images := []registrytest.Image{
		{Name: "docker.io/team/app:v1"}, {Name: "quay.io/team/app:v2"},
		{Name: "reg.example:8443/a/b:v1"}, {Name: "quay.io/a/c:v1"},
	}
	path, full := writeLayer(t, tree.NamingPath, images), writeLayer(t, tree.NamingFull, append(images, registrytest.Image{Name: "quay.io/team/app:v1"}))
	origin := writeLayer(t, tree.NamingPath, []registrytest.Image{{Name: "docker.io/own/name:v1"}})
	origin.Document.Repositories[0].Tags[0].Sources = parseRefs(t, "quay.io/their/name:v1") // NAME=SOURCE
	origin.Document.Repositories[0].Revisions[0].Sources = parseRefs(t, "quay.io/their/name:v1")
	for _, tc := range []struct {
		layer *registrytest.DiskLayer
		url   string
		want  int
	}{
		{path, "/v2/team/app/manifests/v1?ns=docker.io", 200},
		{path, "/v2/team/app/manifests/v1?ns=registry-1.docker.io", 200},
		{path, "/v2/team/app/manifests/v2?ns=docker.io", 404}, // that tag is quay.io's
		{path, "/v2/team/app/manifests/v2?ns=quay.io", 200},
		{path, "/v2/team/app/manifests/v1?ns=ghcr.io", 404},
		{path, "/v2/a/b/manifests/v1?ns=reg.example:8443", 200},
		{path, "/v2/a/b/manifests/v1?ns=reg.example", 404},
		{path, "/v2/reg.example-8443/a/b/manifests/v1", 200},
		{full, "/v2/reg.example-8443/a/b/manifests/v1?ns=reg.example:8443", 200},
		{full, "/v2/docker.io/a/b/manifests/v1?ns=reg.example:8443", 404},
		{path, "/v2/docker.io/team/app/manifests/v1?ns=docker.io", 200},
		{path, "/v2/team/app/manifests/v1?ns=sea.hub:5000", 200},
		{full, "/v2/sea.hub-5000/docker.io/team/app/manifests/v1?ns=sea.hub:5000", 200},
		{path, "/v2/docker.io/team/app/manifests/v2", 404},
		{path, "/v2/docker.io/team/app/tags/list", 200},
		{path, "/v2/docker.io/a/c/tags/list", 404},
		{path, "/v2/team/app/tags/list?ns=ghcr.io", 404},
		{path, "/v2/team/tags/list", 404},
		{full, "/v2/a/c/manifests/v1", 200},
		{full, "/v2/a/b/manifests/v1?ns=reg.example:8443", 200},
		{full, "/v2/team/app/manifests/v2", 200},              // only quay.io's has it
		{full, "/v2/team/app/manifests/v1", 404},              // two registries have it
		{full, "/v2/team/app/manifests/v1?ns=docker.io", 200}, // and this says which
		{full, "/v2/reg.example:8443/a/b/manifests/v1", 200},
		{origin, "/v2/own/name/manifests/v1", 200},
		{origin, "/v2/their/name/manifests/v1?ns=quay.io", 404},
		{origin, "/v2/own/name/manifests/v1?ns=docker.io", 200}, // by Options.References
	} {
		o := registry.Options{}
		if tc.layer.Dir == origin.Dir {
			o.References = origin.Images
		}
		h := newHandler(t, o, tc.layer)
		if w := do(h, "GET", tc.url); w.Code != tc.want {
			t.Errorf("GET %s: %d %s, want %d", tc.url, w.Code, w.Body, tc.want)
		}
	}
}

func TestUnitesLayers(t *testing.T) {
	t.Parallel()
	nginx := registrytest.Image{Name: "nginx:latest", Platforms: []string{"amd64", "arm64"}, Layers: registrytest.Layers("base", "nginx")}
	newer := nginx
	newer.Revision = 1
	low := writeLayer(t, tree.NamingPath, []registrytest.Image{nginx, {Name: "busybox:1"}})
	high := writeLayer(t, tree.NamingPath, []registrytest.Image{newer, {Name: "nginx:2"}, {Name: "quay.io/x/y:1"}}, low)
	rootfs := &registrytest.DiskLayer{Dir: t.TempDir(), Document: &tree.Document{}} // no registry in it
	h := newHandler(t, registry.Options{}, low, rootfs, high)

	w := do(h, "GET", "/v2/library/nginx/manifests/latest")
	if got, want := digest.FromBytes(w.Body.Bytes()), high.Content("nginx").Root.Digest; got != want {
		t.Errorf("the tag of the higher layer is %s, got %s", want, got)
	}
	old := low.Content("nginx").Root.Digest
	if w := do(h, "GET", "/v2/library/nginx/manifests/"+old.String()); digest.FromBytes(w.Body.Bytes()) != old {
		t.Errorf("the lower layer's revision: %d %s", w.Code, w.Body)
	}
	shared := manifest(t, high.Content("nginx")).Layers[0].Digest // its blob is below
	if w := do(h, "GET", "/v2/library/nginx/blobs/"+shared.String()); digest.FromBytes(w.Body.Bytes()) != shared {
		t.Errorf("shared layer: %d", w.Code)
	}
	var got struct{ Repositories, Tags []string }
	for _, url := range []string{"/v2/_catalog", "/v2/library/nginx/tags/list"} {
		if err := json.Unmarshal(do(h, "GET", url).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"library/busybox", "library/nginx", "x/y"}, got.Repositories); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2", "latest"}, got.Tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

// TestSourcesOfLayers: a higher layer may add a source to an equal tag, and
// takes a tag from its sources when it changes it.
func TestSourcesOfLayers(t *testing.T) {
	t.Parallel()
	image := registrytest.Image{Name: "docker.io/team/app:v1"}
	other := image
	other.Revision = 1
	low := writeLayer(t, tree.NamingPath, []registrytest.Image{image})
	same, changed := writeLayer(t, tree.NamingPath, []registrytest.Image{image}), writeLayer(t, tree.NamingPath, []registrytest.Image{other})
	for _, l := range []*registrytest.DiskLayer{same, changed} {
		l.Document.Repositories[0].Tags[0].Sources = parseRefs(t, "quay.io/team/app:v1")
	}
	for _, tc := range []struct {
		high *registrytest.DiskLayer
		ns   string
		want int
	}{{same, "docker.io", 200}, {same, "quay.io", 200}, {changed, "docker.io", 404}, {changed, "quay.io", 200}} {
		h := newHandler(t, registry.Options{}, low, tc.high)
		if w := do(h, "GET", "/v2/team/app/manifests/v1?ns="+tc.ns); w.Code != tc.want {
			t.Errorf("from %s: %d, want %d", tc.ns, w.Code, tc.want)
		}
	}
}

func TestRange(t *testing.T) {
	t.Parallel()
	l := writeLayer(t, tree.NamingPath, few())
	h := newHandler(t, registry.Options{}, l)
	c := l.Content("busybox:1.36")
	d := manifest(t, c).Layers[0].Digest
	url, want := "/v2/library/busybox/blobs/"+d.String(), c.Blobs[d]
	for ranges, tc := range map[string]struct {
		code int
		body []byte
	}{
		"bytes=0-9":      {206, want[:10]},
		"bytes=100-":     {206, want[100:]},
		"bytes=-5":       {206, want[len(want)-5:]},
		"bytes=9999999-": {416, nil},
	} {
		w := do(h, "GET", url, "Range", ranges)
		if w.Code != tc.code || tc.body != nil && !bytes.Equal(w.Body.Bytes(), tc.body) {
			t.Errorf("%s: %d, %d bytes", ranges, w.Code, w.Body.Len())
		}
	}
	if w := do(h, "GET", url, "If-None-Match", `"`+d.String()+`"`); w.Code != http.StatusNotModified {
		t.Errorf("If-None-Match: %d", w.Code)
	}
}

func TestRefusesWrites(t *testing.T) {
	t.Parallel()
	l := writeLayer(t, tree.NamingPath, few())
	h := newHandler(t, registry.Options{}, l)
	for _, tc := range []struct{ method, url string }{
		{"POST", "/v2/library/nginx/blobs/uploads/"},
		{"PUT", "/v2/library/nginx/manifests/latest"},
		{"DELETE", "/v2/library/nginx/manifests/latest"},
		{"PATCH", "/v2/library/nginx/blobs/uploads/1"},
	} {
		w := do(h, tc.method, tc.url)
		if w.Code != http.StatusMethodNotAllowed || !strings.Contains(w.Body.String(), `"UNSUPPORTED"`) || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: %d %s", tc.method, tc.url, w.Code, w.Body)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	t.Parallel()
	h := newHandler(t, registry.Options{}, writeLayer(t, tree.NamingPath, few()))
	do(h, "GET", "/v2/library/nginx/manifests/latest")
	do(h, "HEAD", "/v2/no/manifests/latest")
	if w := do(h, "GET", "/healthz"); w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("health: %d %s", w.Code, w.Body)
	}
	body := do(h, "GET", "/metrics").Body.String()
	for _, want := range []string{
		`sealer_registry_requests_total{code="200",endpoint="manifests",method="GET"} 1`,
		`sealer_registry_requests_total{code="404",endpoint="manifests",method="HEAD"} 1`,
		`sealer_registry_request_seconds_count{endpoint="manifests"} 2`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %s:\n%s", want, body)
		}
	}
}

// TestLogs makes sure that requests reach our log and that distribution finds
// the logger that we give it, rather than the global one.
func TestLogs(t *testing.T) {
	var ours, global bytes.Buffer
	logrus.SetOutput(&global)
	t.Cleanup(func() { logrus.SetOutput(os.Stderr) })
	log := slog.New(slog.NewTextHandler(&ours, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := newHandler(t, registry.Options{Logger: log}, writeLayer(t, tree.NamingPath, few()))
	do(h, "GET", "/v2/library/nginx/manifests/none")
	do(h, "GET", "/v2/library/nginx/manifests/latest")
	if global.Len() != 0 {
		t.Errorf("logrus' global logger got:\n%s", global.String())
	}
	for _, want := range []string{"distribution: response completed", "url=/v2/library/nginx/manifests/none status=404"} {
		if !strings.Contains(ours.String(), want) {
			t.Errorf("our log lacks %q:\n%s", want, ours.String())
		}
	}
}

// TestIgnoresEnvironment: REGISTRY_* variables must not reach the handlers.
func TestIgnoresEnvironment(t *testing.T) {
	t.Setenv("REGISTRY_AUTH_FILE", "/nowhere/auth.json")
	t.Setenv("REGISTRY_STORAGE", "no-such-driver")
	t.Setenv("REGISTRY_HTTP_PREFIX", "/elsewhere/")
	h := newHandler(t, registry.Options{}, writeLayer(t, tree.NamingPath, few()))
	if w := do(h, "GET", "/v2/library/nginx/tags/list"); w.Code != 200 {
		t.Errorf("with REGISTRY_ variables: %d %s", w.Code, w.Body)
	}
}

// TestStaysInLayer: a layer's symbolic link does not lead out of it.
func TestStaysInLayer(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := writeLayer(t, tree.NamingPath, few())
	d := manifest(t, l.Content("busybox:1.36")).Layers[0].Digest
	blob := filepath.Join(l.Dir, tree.Root, tree.BlobPath(d))
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, blob); err != nil {
		t.Fatal(err)
	}
	h := newHandler(t, registry.Options{}, l)
	if w := do(h, "GET", "/v2/library/busybox/blobs/"+d.String()); w.Code == 200 || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("a link out of the layer gave %d %s", w.Code, w.Body)
	}
}

// TestOddLayers: what is called registry in a rootfs layer may be anything.
func TestOddLayers(t *testing.T) {
	t.Parallel()
	good := writeLayer(t, tree.NamingPath, few())
	file, link, empty := t.TempDir(), t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(file, tree.Root), nil, 0o644),
		os.Symlink("/", filepath.Join(link, tree.Root)),
		os.Mkdir(filepath.Join(empty, tree.Root), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := registry.NewHandler(t.Context(), registry.Dirs(file, good.Dir, link, empty), registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if w := do(h, "GET", "/v2/library/nginx/manifests/latest"); w.Code != 200 {
		t.Errorf("beside odd layers: %d %s", w.Code, w.Body)
	}
	if err := os.RemoveAll(filepath.Join(good.Dir, tree.Root)); err != nil {
		t.Fatal(err)
	}
	if w := do(h, "GET", registry.HealthPath); w.Code != http.StatusServiceUnavailable {
		t.Errorf("health of a registry whose layer was removed: %d", w.Code)
	}
}

func TestMissingLayer(t *testing.T) {
	t.Parallel()
	_, err := registry.NewHandler(t.Context(), registry.Dirs(filepath.Join(t.TempDir(), "none")), registry.Options{})
	if err == nil || !strings.Contains(err.Error(), "open registry layer") {
		t.Errorf("a layer that is not there: %v", err)
	}
}
