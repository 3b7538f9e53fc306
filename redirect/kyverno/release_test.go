package kyverno_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/redirect/kyverno"
	"github.com/clusterimage/sealer/redirect/redirecttest"
)

// TestReleaseIsTheSharedManifest compares the pinned checksums with the
// manifests that the tests install.
func TestReleaseIsTheSharedManifest(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.13.6", kyverno.DefaultVersion} {
		b, err := os.ReadFile(redirecttest.Shared(t, "kyverno/install-"+version+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		if r := kyverno.ReleaseOf(version); r.SHA256 != hex.EncodeToString(sum[:]) || !strings.Contains(r.URL, "/"+version+"/") {
			t.Errorf("%s: %+v, want the checksum %x", version, r, sum)
		}
	}
	if r := kyverno.ReleaseOf("v1.2.3"); r.SHA256 != "" || !strings.HasSuffix(r.URL, "/v1.2.3/install.yaml") {
		t.Errorf("a version that is not pinned: %+v", r)
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{"": "", "1.19.1": "v1.19.1", "v1.19.1": "v1.19.1", "v1.20.0-rc.1": "v1.20.0-rc.1"} {
		if got, err := kyverno.ParseVersion(s); err != nil || got != want {
			t.Errorf("ParseVersion(%q) = %q, %v", s, got, err)
		}
	}
	for _, s := range []string{"latest", "v1", "1.2", "v1.2.3/../x", "v1.2.3 ", "v1.2.3+x"} {
		if _, err := kyverno.ParseVersion(s); err == nil {
			t.Errorf("ParseVersion(%q) has no error", s)
		}
	}
}
