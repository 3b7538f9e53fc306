package redirect_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/registry/tree"
)

func TestPolicyOfEveryOption(t *testing.T) {
	t.Parallel()
	exact := []redirect.Image{{Reference: parse(t, "nginx:1"), Digests: []digest.Digest{digest.FromString("x")}}, {Reference: parse(t, "quay.io/a/b:2")}, {Reference: parse(t, "[fd00::1]:5000/a/b:3")}}
	options := map[string]struct {
		d     redirect.Redirect
		kinds int // objects of an admission policy
	}{
		"defaults":          {redirect.Redirect{}, 2},
		"full":              {redirect.Redirect{Naming: tree.NamingFull, SourceRegistries: []string{"docker.io", "quay.io"}}, 2},
		"namespace":         {redirect.Redirect{NamespaceSelector: "redirect=on, !legacy, tier notin (a, b),env in (c)"}, 2},
		"prefixes":          {redirect.Redirect{Prefixes: []redirect.Prefix{{Registry: "docker.io", Path: "hub"}}}, 2},
		"address":           {redirect.Redirect{PrivateRegistry: "[::1]:5000", SourceRegistries: []string{"[fd00::1]:5000"}}, 2},
		"exact":             {redirect.Redirect{Exact: true, Images: exact}, 2},
		"exact, deny":       {redirect.Redirect{Exact: true, Images: exact, DenyOthers: true}, 4},
		"exact, deny, full": {redirect.Redirect{Exact: true, Images: exact, DenyOthers: true, Naming: tree.NamingFull}, 4},
	}
	for name, o := range options {
		for _, engine := range redirect.Engines() {
			d := o.d
			d.Engine = engine
			if engine == redirect.Containerd {
				d.NamespaceSelector = ""
			}
			files, err := d.Policy()
			if err != nil {
				t.Errorf("%s, %s: %v", name, engine, err)
				continue
			}
			again, _ := d.Policy()
			if !bytes.Equal(files[0].Content, again[0].Content) {
				t.Errorf("%s, %s: two runs differ", name, engine)
			}
			if engine == redirect.Containerd {
				continue
			}
			if bytes.Contains(files[0].Content, []byte("<no value>")) || bytes.HasPrefix(files[0].Content, []byte("\n")) {
				t.Errorf("%s, %s:\n%s", name, engine, files[0].Content)
			}
			want := o.kinds
			if engine == redirect.MutatingPolicy {
				want /= 2 // no bindings
			} else if engine == redirect.ClusterPolicy {
				want = 1
			}
			if got := countObjects(t, files[0].Content); got != want {
				t.Errorf("%s, %s: %d objects, want %d", name, engine, got, want)
			}
		}
	}
}

// countObjects parses a YAML stream and counts its Kubernetes objects.
func countObjects(t *testing.T, b []byte) int {
	t.Helper()
	dec := yaml.NewDecoder(bytes.NewReader(b))
	for n := 0; ; n++ {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
		}
		err := dec.Decode(&object)
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil || object.APIVersion == "" || object.Kind == "" {
			t.Errorf("object %d: %+v, %v", n, object, err)
			return n
		}
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	exact := []redirect.Image{{Reference: parse(t, "nginx:1")}, {Reference: parse(t, "reg.example:8443/a/b:2")}}
	for name, tc := range map[string]struct {
		d    redirect.Redirect
		want []string // path: a line of it
	}{
		"all":      {redirect.Redirect{}, []string{`certs.d/_default/hosts.toml: [host."https://sea.hub:5000"]`}},
		"exact":    {redirect.Redirect{Exact: true, Images: exact}, []string{`certs.d/docker.io/hosts.toml: [host."https://sea.hub:5000"]`, `certs.d/reg.example:8443/hosts.toml: [host."https://sea.hub:5000"]`}},
		"full":     {redirect.Redirect{Exact: true, Images: exact, Naming: tree.NamingFull}, []string{`certs.d/docker.io/hosts.toml: [host."https://sea.hub:5000/v2/docker.io"]`, `certs.d/reg.example:8443/hosts.toml: [host."https://sea.hub:5000/v2/reg.example-8443"]`}},
		"prefix":   {redirect.Redirect{Prefixes: []redirect.Prefix{{Registry: "docker.io", Path: "hub"}}}, []string{`certs.d/docker.io/hosts.toml: [host."https://sea.hub:5000/v2/hub"]`}},
		"http":     {redirect.Redirect{PlainHTTP: true, SourceRegistries: []string{"quay.io"}}, []string{`certs.d/quay.io/hosts.toml: [host."http://sea.hub:5000"]`, `certs.d/sea.hub:5000/hosts.toml: server = "http://sea.hub:5000"`}},
		"the rest": {redirect.Redirect{Exact: true, Images: exact[:1], DenyOthers: true}, []string{`certs.d/_default/hosts.toml: server = "https://denied.invalid"`, `certs.d/docker.io/hosts.toml: server = "https://sea.hub:5000"`, `certs.d/sea.hub:5000/hosts.toml: server = "https://sea.hub:5000"`}},
	} {
		tc.d.Engine = redirect.Containerd
		files, err := tc.d.Policy()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(files) != len(tc.want) {
			t.Errorf("%s: %d files, want %d", name, len(files), len(tc.want))
			continue
		}
		for i, want := range tc.want {
			path, line, _ := strings.Cut(want, ": ")
			if files[i].Path != path || !strings.Contains("\n"+string(files[i].Content), "\n"+line+"\n") {
				t.Errorf("%s: %s:\n%s\nwant %s with %s", name, files[i].Path, files[i].Content, path, line)
			}
		}
	}
	if _, err := (redirect.Redirect{Engine: redirect.Containerd, Naming: tree.NamingFull}).Policy(); err == nil {
		t.Error("full naming without source registries has no error")
	}
}
