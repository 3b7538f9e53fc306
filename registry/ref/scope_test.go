package ref_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/registry/ref"
)

func TestScopes(t *testing.T) {
	t.Parallel()
	d := "sha256:" + strings.Repeat("a", 64)
	for in, want := range map[string][]string{
		"nginx":                       {"docker.io/library/nginx:latest", "docker.io/library/nginx", "docker.io/library", "docker.io", "*.io"},
		"reg.a.example:8443/x/y@" + d: {"reg.a.example:8443/x/y@" + d, "reg.a.example:8443/x/y", "reg.a.example:8443/x", "reg.a.example:8443", "*.a.example", "*.example"},
		"localhost/x:1@" + d:          {"localhost/x@" + d, "localhost/x:1", "localhost/x", "localhost"},
	} {
		r, err := ref.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.Scopes()); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func TestCheckScope(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"docker.io": true, "docker.io/library": true, "docker.io/library/nginx:1.25": true, "reg.example:5000/a": true, "*.example.com": true,
		"*.io": true, "localhost": true, "docker.io/nginx": true, "reg.example/a@sha256:" + strings.Repeat("a", 64): true,
		"": false, "library": false, "nginx": false, "*": false, "*.": false, "*.example.com/a": false, "*.example.com:5000": false, "reg.*.com": false,
		"reg.example/": false, "reg.example/A": false, "reg.example//a": false, "https://reg.example": false, "index.docker.io/library/nginx": false,
	} {
		if err := ref.CheckScope(s); (err == nil) != want {
			t.Errorf("%q: %v", s, err)
		}
	}
}
