package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/redirect/kyverno"
)

const manifest = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: ghcr.io/kyverno/kyverno:v1.2.3\n"

// manifestServer serves a manifest, and what goes wrong with one.
func manifestServer(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/install.yaml", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(manifest)) })
	mux.Handle("/moved", http.RedirectHandler("/install.yaml", http.StatusFound))
	mux.Handle("/loop", http.RedirectHandler("/loop", http.StatusFound))
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>sign in</html>\n")) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return // the client has enough
			}
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(manifest))
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestInitKyvernoFetches(t *testing.T) {
	t.Parallel()
	server := manifestServer(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	const copyIt = "Give a copy of it with: --install-manifest FILE"
	for name, tc := range map[string]struct {
		url  string
		code int
		want []string // on stderr
	}{
		"right":      {server + "/install.yaml", exitDone, []string{"is not among those that sealer knows"}},
		"redirect":   {server + "/moved", exitDone, nil},
		"for ever":   {server + "/loop", exitFailed, []string{"more than 10 redirects", copyIt}},
		"endless":    {server + "/endless", exitFailed, []string{"it has more than the 32 MiB of any Kyverno", copyIt}},
		"not found":  {server + "/none", exitFailed, []string{"the server answers 404 Not Found", copyIt}},
		"busy":       {server + "/busy", exitFailed, []string{"the server answers 503", copyIt}},
		"cut":        {server + "/cut", exitFailed, []string{"unexpected EOF", copyIt}},
		"no network": {closed.URL, exitFailed, []string{"connection refused", copyIt}},
		"a page":     {server + "/page", exitFailed, []string{"no Kubernetes object"}},
		"password":   {"http://u:secret@" + strings.TrimPrefix(server, "http://") + "/none", exitFailed, []string{"http://u:xxxxx@", copyIt}},
		"no URL":     {"http://[", exitUsage, []string{"--install-manifest: it is no URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "ctx")
			var out, stderr bytes.Buffer
			code := Main(t.Context(), []string{"init", "kyverno", dir, "--install-manifest", tc.url}, Streams{In: strings.NewReader(""), Out: &out, Err: &stderr})
			if code != tc.code {
				t.Errorf("exit code %d, want %d:\n%s", code, tc.code, &stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("want %q:\n%s", want, &stderr)
				}
			}
			if strings.Contains(stderr.String(), "secret") {
				t.Errorf("a password is printed:\n%s", &stderr)
			}
			if _, err := os.Stat(filepath.Join(dir, "Kubefile")); (err == nil) != (tc.code == exitDone) {
				t.Errorf("Kubefile after exit code %d: %v", code, err)
			}
		})
	}
}

// TestReleaseIsChecked fetches a release from loopback: that of a version that
// is pinned comes only with the checksum.
func TestReleaseIsChecked(t *testing.T) {
	t.Parallel()
	server := manifestServer(t)
	sum := sha256.Sum256([]byte(manifest))
	right := hex.EncodeToString(sum[:])
	var stderr bytes.Buffer
	a := &app{Streams: Streams{Err: &stderr}, started: true}
	if name, b, err := a.fetchManifest(t.Context(), kyverno.Release{URL: server + "/moved", SHA256: right}); err != nil || string(b) != manifest || name != server+"/moved" || stderr.Len() > 0 {
		t.Errorf("%s, %q, %v, %s", name, b, err, &stderr)
	}
	wrong := strings.Repeat("0", 64)
	_, b, err := a.fetchManifest(t.Context(), kyverno.Release{URL: server + "/install.yaml", SHA256: wrong})
	if err == nil || b != nil || !strings.Contains(err.Error(), "its SHA-256 is "+right+", want "+wrong) || a.report(t.Context(), nil, err) != exitFailed {
		t.Errorf("%q, %v", b, err)
	}
	if !strings.Contains(stderr.String(), "--install-manifest FILE") {
		t.Errorf("no advice: %s", &stderr)
	}
}
