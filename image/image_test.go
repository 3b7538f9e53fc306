package image_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A mirrored image is written as it always was, and text that is no reference
// comes through.
func TestMirroredImageJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]image.Name{
		`{"reference":"docker.io/library/nginx:1.25"}`: {Reference: ref.Reference{Registry: "docker.io", Repository: "library/nginx", Tag: "1.25"}},
		`{"reference":"Not A Reference"}`:              {Text: "Not A Reference"},
		`{"reference":""}`:                             {},
	} {
		var m image.MirroredImage
		if err := json.Unmarshal([]byte(in), &m); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, m.Reference); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
		if got, err := json.Marshal(m); err != nil || string(got) != in {
			t.Errorf("%s is written as %s, %v", in, got, err)
		}
	}
	m := image.MirroredImage{Reference: image.ParseName("nginx"), Source: image.ParseName("quay.io/nginx")}
	want := `{"reference":"docker.io/library/nginx:latest","source":"quay.io/nginx:latest"}`
	if got, err := json.Marshal(m); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestServed(t *testing.T) {
	t.Parallel()
	one, two := digest.FromString("1"), digest.FromString("2")
	docs := []*tree.Document{{Repositories: []tree.Repository{
		{Name: "library/nginx", Revisions: []tree.Revision{{Digest: one}, {Digest: two}}},
		{Name: "other", Revisions: []tree.Revision{{Digest: one}}},
	}}}
	c := image.Config{
		PrivateRegistry: image.PrivateRegistry{Naming: tree.NamingPath},
		Images: []image.MirroredImage{
			{Reference: image.ParseName("nginx"), Digest: one},
			{Reference: image.ParseName("nginx:gone"), Digest: two, Missing: "not found"},
			{Reference: image.ParseName("quay.io/other:v1"), Digest: two},
			{Reference: image.ParseName("Not A Reference"), Digest: one},
		},
	}
	nginx, err := ref.Parse("nginx")
	if err != nil {
		t.Fatal(err)
	}
	want := []image.Served{{Reference: nginx, Digests: []digest.Digest{one, two}}}
	if diff := cmp.Diff(want, c.Served(docs)); diff != "" {
		t.Errorf("Served (-want +got):\n%s", diff)
	}
	other, err := ref.Parse("quay.io/other:v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ref.Reference{nginx, other}, c.References()); diff != "" {
		t.Errorf("References (-want +got):\n%s", diff)
	}
}

// The annotations that Annotations writes are the ones that FromPlain reads.
func TestAnnotationsComeBack(t *testing.T) {
	t.Parallel()
	c := image.Config{
		SealerVersion: "v1", Type: image.TypeAppInstaller,
		Labels: map[string]string{"l": "<&>"}, Env: map[string]string{"A": "b"},
		Applications: []image.Application{{Name: "web", Type: "helm", Files: []string{"application/apps/web/chart"}, Cmds: []string{"c"}, Version: "v2"}},
		Launch:       &image.Launch{Apps: []string{"web"}, Cmds: []string{"x"}},
		Images: []image.MirroredImage{
			{Reference: image.ParseName("nginx"), Found: []image.Provenance{{File: "application/apps/web/chart/values.yaml"}}},
			{Reference: image.ParseName("Not A Reference")},
			{Reference: image.ParseName("gone"), Missing: "not found"},
		},
	}
	annotations := c.Annotations()
	if !strings.Contains(annotations[image.AnnotationExtension], "<&>") {
		t.Errorf("escaped: %s", annotations[image.AnnotationExtension])
	}
	got, err := image.FromPlain(&ocispec.Manifest{Annotations: annotations}, &ocispec.Image{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{c.SealerVersion, c.Type, c.Labels, c.Env, c.Applications, c.Launch}, []any{got.SealerVersion, got.Type, got.Labels, got.Env, got.Applications, got.Launch}); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	var names []string
	for _, m := range got.Images {
		names = append(names, m.Reference.String()+" "+m.Found[0].Object)
	}
	if diff := cmp.Diff([]string{"docker.io/library/nginx:latest application/web", "Not A Reference "}, names); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func TestFromPlainRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		m    ocispec.Manifest
		want string
	}{
		"layers":    {ocispec.Manifest{Layers: make([]ocispec.Descriptor, 2)}, "the config has 0 layers, the manifest 2"},
		"extension": {ocispec.Manifest{Annotations: map[string]string{image.AnnotationExtension: "{"}}, image.AnnotationExtension},
		"images":    {ocispec.Manifest{Annotations: map[string]string{image.AnnotationContainerImages: "{}"}}, image.AnnotationContainerImages},
	} {
		if _, err := image.FromPlain(&tc.m, &ocispec.Image{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
