package registry_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// unwrittenLayer returns the layer of l's document, whose blobs lie in a directory
// of their own.
func unwrittenLayer(t testing.TB, l *registrytest.DiskLayer) (layer registry.Layer, blobs string) {
	t.Helper()
	if _, _, err := l.Document.Encode(); err != nil { // it sorts
		t.Fatal(err)
	}
	blobs = t.TempDir()
	for _, b := range l.Document.Blobs {
		if err := os.Link(filepath.Join(l.Dir, tree.Root, tree.BlobPath(b.Digest)), filepath.Join(blobs, b.Digest.Encoded())); err != nil {
			t.Fatal(err)
		}
	}
	return registry.Layer{Document: l.Document, Blob: func(d digest.Digest) string { return filepath.Join(blobs, d.Encoded()) }}, blobs
}

// A registry answers out of a document as it does out of the tree's files, and
// out of both together.
func TestUnwrittenTree(t *testing.T) {
	t.Parallel()
	low, high := writeLayer(t, tree.NamingPath, few()), writeLayer(t, tree.NamingPath, without("docker.io/library/nginx:latest"))
	lowDocument, _ := unwrittenLayer(t, low)
	highDocument, _ := unwrittenLayer(t, high)
	o := registry.Options{Documents: []*tree.Document{low.Document, high.Document}}
	serve := func(layers ...registry.Layer) *registry.Handler {
		h, err := registry.NewHandler(t.Context(), layers, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		return h
	}
	files := serve(registry.Dirs(low.Dir, high.Dir)...)
	urls := []string{"/v2/", "/v2/_catalog", registry.HealthPath, "/v2/library/none/tags/list", "/v2/library/nginx/manifests/none"}
	for _, r := range low.Document.Repositories {
		urls = append(urls, "/v2/"+r.Name+"/tags/list")
		for _, v := range r.Tags {
			urls = append(urls, "/v2/"+r.Name+"/manifests/"+v.Name)
		}
		for _, v := range r.Revisions {
			urls = append(urls, "/v2/"+r.Name+"/manifests/"+v.Digest.String(), "/v2/"+r.Name+"/referrers/"+v.Digest.String())
		}
		for _, v := range r.Layers {
			urls = append(urls, "/v2/"+r.Name+"/blobs/"+v.String())
		}
	}
	for name, h := range map[string]*registry.Handler{
		"documents": serve(lowDocument, highDocument),
		"both":      serve(registry.Layer{Dir: low.Dir}, highDocument),
	} {
		for _, url := range urls {
			for _, method := range []string{"GET", "HEAD"} {
				want, got := do(files, method, url), do(h, method, url)
				if want.Code != got.Code || want.Body.String() != got.Body.String() {
					t.Errorf("%s: %s %s: %d %.100s, of the files %d %.100s", name, method, url, got.Code, got.Body, want.Code, want.Body)
				}
				for _, head := range []string{"Content-Type", "Content-Length", "Docker-Content-Digest"} {
					if diff := cmp.Diff(want.Header()[head], got.Header()[head]); diff != "" {
						t.Errorf("%s: %s %s: %s (-files +%s):\n%s", name, method, url, head, name, diff)
					}
				}
			}
		}
	}
	if w := do(serve(lowDocument), "GET", "/v2/library/nginx/blobs/"+low.Content("docker.io/library/nginx:latest").Root.Digest.String(), "Range", "bytes=1-3"); w.Code != 206 && w.Code != 404 {
		t.Errorf("a range: %d %s", w.Code, w.Body)
	}
}

// Verify finds what is missing behind a document.
func TestVerifyUnwrittenTree(t *testing.T) {
	t.Parallel()
	l := writeLayer(t, tree.NamingPath, few())
	layer, blobs := unwrittenLayer(t, l)
	references := parseRefs(t, "nginx", "none")
	verify := func() []registry.Missing {
		missing, err := registry.Verify(t.Context(), []registry.Layer{layer}, references, registry.VerifyOptions{Platforms: platforms(t, "linux/amd64")})
		if err != nil {
			t.Fatal(err)
		}
		return missing
	}
	if missing := verify(); len(missing) != 1 || missing[0].Reference != references[1] {
		t.Errorf("missing: %v", missing)
	}
	gone := manifest(t, l.Content("docker.io/library/nginx:latest")).Layers[0].Digest
	if err := os.Remove(filepath.Join(blobs, gone.Encoded())); err != nil {
		t.Fatal(err)
	}
	if missing := verify(); len(missing) != 2 || !strings.Contains(missing[0].Error(), gone.String()) {
		t.Errorf("without a blob: %v", missing)
	}
}
