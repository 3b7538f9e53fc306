package ref_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	} {
		_, err := ref.Parse(in)
		if !errors.Is(err, ref.ErrInvalid) || !strings.Contains(err.Error(), why) {
			t.Errorf("Parse(%q) = %v, want an ErrInvalid that says %q", in, err, why)
		}
	}
}

func TestCheckHost(t *testing.T) {
	t.Parallel()
	for host, ok := range map[string]bool{
		"sea.hub:5000": true, "sea.hub": true, "localhost": true, "localhost:5000": true, "registry:5000": true, "10.0.0.1:5000": true, "[::1]:5000": true,
		"": false, "registry": false, "http://x.io": false, "x.io/path": false, "x.io:0": false, "x.io:70000": false, "x.io:port": false, "X.io": false, "-x.io": false, "x..io": false, "a b.io": false,
	} {
		if err := ref.CheckHost(host); (err == nil) != ok {
			t.Errorf("CheckHost(%q) = %v", host, err)
		} else if _, perr := ref.Parse(host + "/a:b"); ok && perr != nil {
			t.Errorf("CheckHost(%q) passes, but no reference has it: %v", host, perr)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"nginx", "a/b:c", "localhost:5000/a@sha256:" + hex64, "docker.io/library/a", "library/library/x", "docker.io/foo.bar/x", "docker.io/localhost/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ref.Parse(s)
		if err != nil {
			return
		}
		for _, form := range []string{r.String(), r.Familiar()} {
			again, err := ref.Parse(form)
			if err != nil || again != r {
				t.Fatalf("Parse(%q) = %+v, printed as %q, which parses as %+v, %v", s, r, form, again, err)
			}
		}
	})
}
