package redirect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/redirect/redirecttest"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// images returns every reference in the pods of a file of admission requests.
func images(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type container struct{ Image string }
	var requests []struct {
		Object struct {
			Kind string
			Spec struct{ Containers, InitContainers, EphemeralContainers []container }
		}
	}
	if err := json.Unmarshal(b, &requests); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range requests {
		s := r.Object.Spec
		for _, c := range slices.Concat(s.Containers, s.InitContainers, s.EphemeralContainers) {
			if _, err := ref.Parse(c.Image); err == nil {
				out = append(out, c.Image)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestTargetIsServed mirrors every image of the cases into a registry layer and
// looks each one up in its tree under the name that the redirect gives it. That
// the policies give the same names is shown with Kyverno's engine and a real
// API server: make test-policy, make test-cluster.
func TestTargetIsServed(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"testdata/cases.json", "kyverno/cases.json"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			path := file
			if !strings.HasPrefix(file, "testdata") {
				path = redirecttest.Shared(t, file)
			}
			all := images(t, path)
			if len(all) < 20 {
				t.Fatalf("only %d images in the cases", len(all))
			}
			for _, naming := range []tree.Naming{tree.NamingPath, tree.NamingFull} {
				dir, served := serve(t, all, naming)
				for _, image := range served {
					d := redirect.Redirect{Naming: naming, Exact: true, Images: []redirect.Image{{Reference: parse(t, image)}}}
					checkServed(t, dir, d, image)
				}
			}
		})
	}
}

// serve writes a registry layer with an image of its own for each reference,
// and returns its directory and the references that are in it: under
// tree.NamingPath only the first of those that share a name.
func serve(t *testing.T, refs []string, naming tree.Naming) (string, []string) {
	t.Helper()
	repositories := map[string]*tree.Repository{}
	doc := &tree.Document{}
	var served []string
	for _, s := range refs {
		r := parse(t, s)
		id := r.Digest
		if id == "" {
			id = digest.FromString(r.String())
		}
		name := naming.Target(ref.DefaultPrivate, r).Repository
		repo := repositories[name]
		if repo == nil {
			repo = &tree.Repository{Name: name}
			repositories[name] = repo
		}
		if r.Tag != "" && slices.ContainsFunc(repo.Tags, func(x tree.Tag) bool { return x.Name == r.Tag }) {
			continue
		}
		served = append(served, s)
		if r.Tag != "" {
			repo.Tags = append(repo.Tags, tree.Tag{Name: r.Tag, Digest: id})
		}
		if !slices.ContainsFunc(repo.Revisions, func(v tree.Revision) bool { return v.Digest == id }) {
			repo.Revisions = append(repo.Revisions, tree.Revision{Digest: id})
		}
	}
	for _, repo := range repositories {
		doc.Repositories = append(doc.Repositories, *repo)
	}
	dir := t.TempDir()
	if err := tree.Prepare(dir, doc); err != nil {
		t.Fatal(err)
	}
	return dir, served
}

func checkServed(t *testing.T, dir string, d redirect.Redirect, image string) {
	t.Helper()
	r := parse(t, image)
	got, redirected := d.Target(r)
	if redirected == (r.Registry == ref.DefaultPrivate) {
		t.Errorf("%s: redirected: %v", image, redirected)
	}
	if want := d.Naming.Target(ref.DefaultPrivate, r); got != want {
		t.Errorf("%s becomes %s, the registry layer has it as %s", image, got, want)
	}
	link := tree.TagPath(got.Repository, got.Tag)
	if got.Digest != "" {
		link = tree.RevisionPath(got.Repository, got.Digest)
	}
	if _, err := os.Stat(filepath.Join(dir, tree.Root, link)); err != nil {
		t.Errorf("%s becomes %s, which is not served: %v", image, got, err)
	}
}

func parse(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTarget(t *testing.T) {
	t.Parallel()
	const id = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hub := []redirect.Prefix{{Registry: "index.docker.io", Path: "hub"}, {Registry: "quay.io", Path: "a/quay"}}
	exact := []redirect.Image{{Reference: parse(t, "nginx:1"), Digests: []digest.Digest{id}}, {Reference: parse(t, "quay.io/a/b@"+id)}}
	for name, tc := range map[string]struct {
		d        redirect.Redirect
		in, want string // want "": not redirected
	}{
		"prefix of docker.io":    {redirect.Redirect{Prefixes: hub}, "nginx", "sea.hub:5000/hub/library/nginx:latest"},
		"prefix of two segments": {redirect.Redirect{Prefixes: hub}, "quay.io/a/b:1@" + id, "sea.hub:5000/a/quay/a/b:1@" + id},
		"no prefix":              {redirect.Redirect{Prefixes: hub}, "ghcr.io/a/b", ""},
		"prefix, not chosen":     {redirect.Redirect{Prefixes: hub, SourceRegistries: []string{"quay.io"}}, "nginx", ""},
		"source registry":        {redirect.Redirect{SourceRegistries: []string{"DOCKER.io"}}, "nginx", "sea.hub:5000/library/nginx:latest"},
		"other source registry":  {redirect.Redirect{SourceRegistries: []string{"docker.io"}}, "quay.io/a/b", ""},
		"exact tag":              {redirect.Redirect{Exact: true, Images: exact}, "nginx:1", "sea.hub:5000/library/nginx:1"},
		"other tag":              {redirect.Redirect{Exact: true, Images: exact}, "nginx:2", ""},
		"digest of the tag":      {redirect.Redirect{Exact: true, Images: exact}, "nginx@" + id, "sea.hub:5000/library/nginx@" + id},
		"digest with any tag":    {redirect.Redirect{Exact: true, Images: exact}, "nginx:7@" + id, "sea.hub:5000/library/nginx:7@" + id},
		"other digest":           {redirect.Redirect{Exact: true, Images: exact}, "nginx:1@" + digest.FromString("other").String(), ""},
		"tag of a digest":        {redirect.Redirect{Exact: true, Images: exact}, "quay.io/a/b:latest", ""},
		"private registry":       {redirect.Redirect{PrivateRegistry: "quay.io"}, "quay.io/a/b:1", ""},
	} {
		got, ok := tc.d.Target(parse(t, tc.in))
		if want := parse(t, tc.in).String(); tc.want == "" && (ok || got.String() != want) {
			t.Errorf("%s: %s became %s", name, tc.in, got)
		}
		if tc.want != "" && (!ok || got.String() != tc.want) {
			t.Errorf("%s: Target(%s) = %s, %v; want %s", name, tc.in, got, ok, tc.want)
		}
	}
}

// TestNames spells the renaming rule out, without the code that the registry
// layer and the redirect share.
func TestNames(t *testing.T) {
	t.Parallel()
	const id = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	prefixes := []redirect.Prefix{{Registry: "docker.io", Path: "hub"}, {Registry: "quay.io", Path: "cache/quay"}, {Registry: "reg.example:8443", Path: "r"}}
	for _, tc := range []struct{ in, path, full, prefix string }{
		{"nginx", "library/nginx:latest", "docker.io/library/nginx:latest", "hub/library/nginx:latest"},
		{"docker.io/nginx:1.25", "library/nginx:1.25", "docker.io/library/nginx:1.25", "hub/library/nginx:1.25"},
		{"org/app@" + id, "org/app@" + id, "docker.io/org/app@" + id, "hub/org/app@" + id},
		{"nginx:1.25@" + id, "library/nginx:1.25@" + id, "docker.io/library/nginx:1.25@" + id, "hub/library/nginx:1.25@" + id},
		{"quay.io/a/b:v1", "a/b:v1", "quay.io/a/b:v1", "cache/quay/a/b:v1"},
		{"reg.example:8443/a/b:v2", "a/b:v2", "reg.example-8443/a/b:v2", "r/a/b:v2"},
		{"sea.hub:5000/x/y:1", "x/y:1", "x/y:1", "x/y:1"},
	} {
		for _, by := range []struct {
			d    redirect.Redirect
			want string
		}{{redirect.Redirect{}, tc.path}, {redirect.Redirect{Naming: tree.NamingFull}, tc.full}, {redirect.Redirect{Prefixes: prefixes}, tc.prefix}} {
			if got, _ := by.d.Target(parse(t, tc.in)); got.String() != "sea.hub:5000/"+by.want {
				t.Errorf("%s becomes %s, want sea.hub:5000/%s", tc.in, got, by.want)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	prefixes := func(all ...string) []redirect.Prefix {
		var out []redirect.Prefix
		for _, s := range all {
			p, err := redirect.ParsePrefix(s)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	two := []redirect.Image{{Reference: parse(t, "org/app:1")}, {Reference: parse(t, "quay.io/org/app:1")}}
	for want, d := range map[string]redirect.Redirect{
		`registry "https://sea.hub": want host`:       {PrivateRegistry: "https://sea.hub"},
		`registry "sea": want host`:                   {PrivateRegistry: "sea"},
		`registry "sea.hub:0": want host`:             {PrivateRegistry: "sea.hub:0"},
		`registry "sea.hub/a": want host`:             {PrivateRegistry: "sea.hub/a"},
		`source registry "a b": want host`:            {SourceRegistries: []string{"a b"}},
		`one registry, two paths`:                     {Prefixes: prefixes("docker.io=a", "index.docker.io=b")},
		`docker.io=a and quay.io=a/b overlap`:         {Prefixes: prefixes("quay.io=a/b", "docker.io=a")},
		`source registry ghcr.io: it has no prefix`:   {Prefixes: prefixes("quay.io=q"), SourceRegistries: []string{"ghcr.io"}},
		`engine "opa"`:                                {Engine: "opa"},
		`registry naming "flat"`:                      {Naming: "flat"},
		`policy name "A B"`:                           {Name: "A B"},
		`253 at the most`:                             {Name: strings.Repeat("a", 254)},
		`"a=b=c" is no term`:                          {NamespaceSelector: "x,a=b=c"},
		`containerd does not know namespaces`:         {Engine: redirect.Containerd, NamespaceSelector: "a"},
		`it needs the list of images`:                 {DenyOthers: true},
		`not exact`:                                   {Images: two},
		`none of the images is redirected`:            {Exact: true},
		`admission version "v2"`:                      {AdmissionVersion: "v2"},
		`quay.io/org/app:1 both become sea.hub:5000/`: {Exact: true, Images: two},
	} {
		if err := d.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %s", err, want)
		}
	}
	id := digest.FromString("x")
	equal := []redirect.Image{{two[0].Reference, []digest.Digest{id}}, {two[1].Reference, []digest.Digest{id}}}
	for name, d := range map[string]redirect.Redirect{
		"zero value":    {},
		"address":       {PrivateRegistry: "[::1]:5000"},
		"full naming":   {Exact: true, Images: two, Naming: tree.NamingFull},
		"equal content": {Exact: true, Images: equal},
	} {
		if err := d.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []string{"", "docker.io", "=a", "docker.io=", "docker.io=A", "docker.io=../x"} {
		if _, err := redirect.ParsePrefix(s); err == nil {
			t.Errorf("ParsePrefix(%q) has no error", s)
		}
	}
}

// TestPolicyIsTheMeasuredOne compares the default policy with the one that was
// run live on five versions of Kyverno.
func TestPolicyIsTheMeasuredOne(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile(redirecttest.Shared(t, "kyverno/policies/flat.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := redirect.Redirect{}.Policy()
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := yaml.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(files[0].Content, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}
