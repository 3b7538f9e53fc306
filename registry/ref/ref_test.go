package ref_test

import (
	_ "crypto/sha512" // or it would be an unknown algorithm to CheckDigest
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

const hex64 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestParse(t *testing.T) {
	t.Parallel()
	const d = "sha256:" + hex64
	for _, tc := range []struct {
		in       string
		want     ref.Reference
		str      string
		familiar string
	}{
		{"nginx", ref.Reference{"docker.io", "library/nginx", "latest", ""}, "docker.io/library/nginx:latest", "nginx:latest"},
		{"nginx@" + d, ref.Reference{"docker.io", "library/nginx", "", d}, "docker.io/library/nginx@" + d, "nginx@" + d},
		{"nginx:1.25@" + d, ref.Reference{"docker.io", "library/nginx", "1.25", d}, "docker.io/library/nginx:1.25@" + d, "nginx:1.25@" + d},
		{"calico/node:v3", ref.Reference{"docker.io", "calico/node", "v3", ""}, "docker.io/calico/node:v3", "calico/node:v3"},
		{"index.docker.io/library/nginx", ref.Reference{"docker.io", "library/nginx", "latest", ""}, "docker.io/library/nginx:latest", "nginx:latest"},
		{"quay.io/a/b:v1", ref.Reference{"quay.io", "a/b", "v1", ""}, "quay.io/a/b:v1", "quay.io/a/b:v1"},
		{"registry.k8s.io/pause:3.9", ref.Reference{"registry.k8s.io", "pause", "3.9", ""}, "registry.k8s.io/pause:3.9", "registry.k8s.io/pause:3.9"},
		{"sea.hub:5000/x/y:1", ref.Reference{"sea.hub:5000", "x/y", "1", ""}, "sea.hub:5000/x/y:1", "sea.hub:5000/x/y:1"},
		{"docker.io/foo.bar/x", ref.Reference{"docker.io", "foo.bar/x", "latest", ""}, "docker.io/foo.bar/x:latest", "docker.io/foo.bar/x:latest"},
		{"docker.io/localhost/x", ref.Reference{"docker.io", "localhost/x", "latest", ""}, "docker.io/localhost/x:latest", "docker.io/localhost/x:latest"},
		{"library/a/b", ref.Reference{"docker.io", "library/a/b", "latest", ""}, "docker.io/library/a/b:latest", "library/a/b:latest"},
		{"localhost/x", ref.Reference{"localhost", "x", "latest", ""}, "localhost/x:latest", "localhost/x:latest"},
	} {
		got, err := ref.Parse(tc.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", tc.in, diff)
		}
		if got.String() != tc.str || got.Familiar() != tc.familiar {
			t.Errorf("Parse(%q) prints %q and %q, want %q and %q", tc.in, got, got.Familiar(), tc.str, tc.familiar)
		}
	}
}

func TestParseRejects(t *testing.T) {
	t.Parallel()
	for in, why := range map[string]string{
		"":                   "empty",
		"Nginx":              "lowercase",
		"nginx latest":       "white space",
		"https://nginx":      "URL",
		"nginx:":             "want",
		"nginx@sha256:abc":   "digest",
		"nginx:tag:tag":      "want",
		"{{ .Values.im }}":   "white space",
		hex64:                "",
		"a/../b":             "want",
		"nginx@md5:" + hex64: "",
		"r.ora_b/l":          `"r.ora_b" is neither a host name nor`,
		"a_b:1/l:2":          "want",
	} {
		_, err := ref.Parse(in)
		if !errors.Is(err, ref.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("Parse(%q) = %v, want an ErrInvalid that says %q", in, err, why)
		}
		e, ok := errors.AsType[*ref.Error](err)
		if !ok || e.Text != in || e.Error() != fmt.Sprintf("invalid image reference %q: %s", in, e.Reason) {
			t.Errorf("Parse(%q) = %#v, want an *Error about it", in, err)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	type document struct {
		Image  ref.Reference            `json:"image"`
		Source ref.Reference            `json:"source,omitzero"`
		By     map[ref.Reference]string `json:"by,omitempty"`
	}
	const d = "sha256:" + hex64
	image := ref.Reference{"quay.io", "a/b", "v1", d}
	for text, want := range map[string]document{
		`{"image":"docker.io/library/nginx:latest"}`:                    {Image: ref.Reference{"docker.io", "library/nginx", "latest", ""}},
		`{"image":"quay.io/a/b:v1@` + d + `","source":"localhost/x:1"}`: {Image: image, Source: ref.Reference{"localhost", "x", "1", ""}},
		`{"image":"","by":{"quay.io/a/b:v1@` + d + `":"x"}}`:            {By: map[ref.Reference]string{image: "x"}},
	} {
		var got document
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("read %s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("read %s (-want +got):\n%s", text, diff)
		}
		if b, err := json.Marshal(want); err != nil || string(b) != text {
			t.Errorf("written as %s, %v, want %s", b, err, text)
		}
	}
	kept := document{Image: image}
	if err := json.Unmarshal([]byte(`{"image":"Nginx"}`), &kept); !errors.Is(err, ref.ErrInvalid) || kept.Image != image {
		t.Errorf("a bad reference: %v, and it left %v", err, kept.Image)
	}
	if err := json.Unmarshal([]byte(`{"image":"nginx"}`), &kept); err != nil || kept.Image.String() != "docker.io/library/nginx:latest" {
		t.Errorf("a short reference is read as %v, %v", kept.Image, err)
	}
	for _, r := range []ref.Reference{{Repository: "a", Tag: "1"}, {Registry: "a.io", Tag: "1"}, {Registry: "a.io", Repository: "b"}} {
		if b, err := r.MarshalText(); err == nil {
			t.Errorf("%#v is written as %q, which is no whole reference", r, b)
		}
	}
}

func TestCheckHost(t *testing.T) {
	t.Parallel()
	for host, ok := range map[string]bool{
		"sea.hub:5000": true, "sea.hub": true, "localhost": true, "localhost:5000": true, "x.io:65535": true, "x.io:1": true, "registry:5000": true, "10.0.0.1:5000": true, "[::1]:5000": true,
		"": false, "registry": false, "http://x.io": false, "x.io/path": false, "x.io:0": false, "x.io:-1": false, "x.io:65536": false, "x.io:70000": false, "x.io:port": false, "X.io": false, "-x.io": false, "x..io": false, "a b.io": false,
	} {
		if err := ref.CheckHost(host); (err == nil) != ok {
			t.Errorf("CheckHost(%q) = %v", host, err)
		} else if _, perr := ref.Parse(host + "/a:b"); ok && perr != nil {
			t.Errorf("CheckHost(%q) passes, but no reference has it: %v", host, perr)
		}
	}
}

func TestCheckDigest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sha256:" + hex64:                      "",
		"sha256:" + strings.Repeat("09af", 16): "",
		"sha256:" + hex64[1:]:                  "invalid checksum digest length",
		"sha256:" + hex64 + "0":                "invalid checksum digest length",
		"sha256:" + hex64[1:] + "g":            "invalid checksum digest format",
		"sha256:" + hex64[1:] + "`":            "invalid checksum digest format",
		"sha256:" + hex64[1:] + "/":            "invalid checksum digest format",
		"sha256:" + hex64[1:] + ":":            "invalid checksum digest format",
		"sha256:" + hex64[1:] + "A":            "invalid checksum digest format",
		hex64:                                  "invalid checksum digest format",
		"":                                     "invalid checksum digest format",
		"sha512:" + hex64 + hex64:              "only sha256 is supported",
	} {
		d := digest.Digest(text)
		if got := ref.IsSHA256(d); got != (want == "") {
			t.Errorf("IsSHA256(%q) = %v", d, got)
		}
		err := ref.CheckDigest(d)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("CheckDigest(%q) = %v, want %q", d, err, want)
		}
	}
	if err := ref.CheckDigest(digest.Digest(strings.Repeat("x", 1<<20))); len(err.Error()) > 200 {
		t.Errorf("the error quotes %d bytes", len(err.Error()))
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"nginx", "a/b:c", "localhost:5000/a@sha256:" + hex64, "docker.io/library/a", "library/library/x", "docker.io/foo.bar/x", "docker.io/localhost/x", "r.ora_b/l"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ref.Parse(s)
		if err != nil {
			return
		}
		if text, err := r.MarshalText(); err != nil || string(text) != r.String() {
			t.Fatalf("Parse(%q) = %+v, written as %q, %v", s, r, text, err)
		}
		for _, form := range []string{r.String(), r.Familiar()} {
			again, err := ref.Parse(form)
			if err != nil || again != r {
				t.Fatalf("Parse(%q) = %+v, printed as %q, which parses as %+v, %v", s, r, form, again, err)
			}
		}
	})
}

func TestRedact(t *testing.T) {
	t.Parallel()
	const digest = "@sha256:" + hex64
	for in, want := range map[string]string{
		"nginx:1.25":                           "nginx:1.25",
		"nginx:1.25" + digest:                  "nginx:1.25" + digest,
		"host:5000/a/b:1@sha256:short":         "host:5000/a/b:1@sha256:short",
		"user@host/a":                          "user@host/a",
		"joe:pw@host/a/b:1":                    "joe:***@host/a/b:1",
		"joe:pw@host:5000/a/b:1" + digest:      "joe:***@host:5000/a/b:1" + digest,
		"joe:p@w/x:y@host/a":                   "joe:***@host/a",
		"https://joe:pw@host/a":                "https://joe:***@host/a",
		"joe:@host/a":                          "joe:***@host/a",
		":pw@host/a":                           ":***@host/a",
		"://joe:pw@host/a":                     "://joe:***@host/a",
		`image: "joe:pw@host/a" # at:5 me@x.y`: `image: "joe:***@host/a" # at:5 me@x.y`,
		"a=joe:pw@host/a":                      "a=joe:***@host/a",
		"@":                                    "@", "": "",
	} {
		if got := ref.Redact(in); got != want {
			t.Errorf("Redact(%q) = %q, want %q", in, got, want)
		}
	}
	if _, err := ref.Parse("joe:S3CRET@host/a"); err == nil || strings.Contains(err.Error(), "S3CRET") || !strings.Contains(err.Error(), "log in") {
		t.Errorf("Parse: %v", err)
	}
}
