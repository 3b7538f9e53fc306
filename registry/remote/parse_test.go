package remote

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
)

func TestParseChallenge(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]challenge{
		`Bearer realm="https://auth.example/token",service="reg.example",scope="repository:a/b:pull,push"`: {"bearer", "https://auth.example/token", "reg.example"},
		`bearer service=reg, realm=https://x/t`:         {"bearer", "https://x/t", "reg"},
		`Basic realm="a \"quoted\" name, with a comma"`: {"basic", `a "quoted" name, with a comma`, ""},
		`Basic`:                       {"basic", "", ""},
		`Bearer realm="unterminated`:  {"bearer", "unterminated", ""},
		`Bearer service="s"`:          {},
		`Negotiate`:                   {},
		``:                            {},
		`Bearer realm="x",,=,a,b="c"`: {"bearer", "x", ""},
	} {
		got, ok := parseChallenge(in)
		if !ok {
			got = challenge{}
		}
		if got != want {
			t.Errorf("parseChallenge(%q) = %+v, want %+v", in, got, want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://auth.example/token",service="reg.example"`)
	f.Add(`Basic realm="\`)
	f.Fuzz(func(t *testing.T, h string) {
		ch, ok := parseChallenge(h)
		if ok && ch.scheme != "basic" && (ch.scheme != "bearer" || ch.realm == "") {
			t.Errorf("parseChallenge(%q) = %+v", h, ch)
		}
	})
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"":                              0,
		"7":                             7 * time.Second,
		"-1":                            0,
		"soon":                          0,
		"100000":                        100000 * time.Second,
		"9223372036854775807":           math.MaxInt64 / time.Second * time.Second,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := retryAfter(in, now); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", in, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff("[31m red  line…", printable("\x1b[31m red\r\nline and more", 15)); diff != "" {
		t.Error(diff)
	}
}

// What ParseManifest takes has one reading only, and its digests can be paths.
func FuzzParseManifest(f *testing.F) {
	f.Add(ocispec.MediaTypeImageManifest, []byte(`{"schemaVersion":2,"config":{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0},"layers":[]}`))
	f.Add("", []byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:x"}]}`))
	f.Fuzz(func(t *testing.T, mediaType string, b []byte) {
		p, err := ParseManifest(mediaType, b)
		if err != nil {
			return
		}
		if platform.IsIndex(p.MediaType) == platform.IsManifest(p.MediaType) {
			t.Errorf("media type %q", p.MediaType)
		}
		all := append(p.Manifests, p.Layers...)
		if !p.IsIndex() {
			all = append(all, p.Config)
		}
		for _, d := range all {
			if d.Digest.Validate() != nil || d.Size < 0 {
				t.Errorf("descriptor %+v", d)
			}
		}
		if _, err := json.Marshal(p); err != nil {
			t.Error(err)
		}
	})
}
