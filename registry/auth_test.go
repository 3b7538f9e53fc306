package registry_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/tree"
)

func TestHtpasswd(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# users\n\nann:" + string(hash) + "\n")
	h := newHandler(t, registry.Options{Htpasswd: file}, writeLayer(t, tree.NamingPath, few()))
	for _, tc := range []struct {
		user, password string
		want           int
	}{{"ann", "secret", 200}, {"ann", "secret", 200}, {"ann", "wrong", 401}, {"ben", "secret", 401}, {"", "", 401}} {
		r := httptest.NewRequest("GET", "/v2/library/nginx/tags/list", nil)
		if tc.user != "" {
			r.SetBasicAuth(tc.user, tc.password)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.want || tc.want == 401 && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s:%s: %d %v", tc.user, tc.password, w.Code, w.Header())
		}
	}
	if w := do(h, "GET", registry.HealthPath); w.Code != 200 {
		t.Errorf("health needs a password: %d", w.Code)
	}
	for content, want := range map[string]string{"": "no users", "ann": ":1: want user:hash", "\nann:plain": ":2: user ann: want a bcrypt hash"} {
		write(content)
		if _, err := registry.NewHandler(t.Context(), nil, registry.Options{Htpasswd: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("htpasswd %q: %v, want %q", content, err, want)
		}
	}
}
