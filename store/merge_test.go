package store_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// image commits an image with a config of its own.
func commitImage(t testing.TB, s *store.Store, name string, c image.Config, layers ...image.Layer) {
	t.Helper()
	c.Platform = platform.Default()
	if c.PrivateRegistry.Name == "" {
		c.PrivateRegistry = image.PrivateRegistry{Name: ref.DefaultPrivate, Naming: tree.NamingPath}
	}
	c.Layers = make([]image.ConfigLayer, len(layers))
	for i := range layers {
		c.Layers[i] = image.ConfigLayer{Type: "COPY", Value: name}
	}
	d, err := s.WriteImage(t.Context(), c, layers, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), names(t, name), d); err != nil {
		t.Fatal(err)
	}
}

func registryLayer(t testing.TB, s *store.Store, name, content string) image.Layer {
	t.Helper()
	l, err := s.WriteRegistryLayer(t.Context(), document(t, s, name, content))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMerge(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	base := addLayer(t, s, file("bin/x", "base"))
	commitImage(t, s, "a", image.Config{
		Type: image.TypeAppInstaller, Cmd: image.Commands{Parent: []string{"base"}, Current: []string{"a"}}, Env: map[string]string{"A": "1", "B": "1"},
		Args: image.Arguments{Current: map[string]string{"x": "1"}}, Applications: []image.Application{{Name: "app", Type: "helm"}},
		Images: []image.MirroredImage{{Reference: image.ParseName("docker.io/library/nginx:v1"), Missing: "optional"}},
	}, base, addLayer(t, s, file("a", "a"), file("both", "a")))
	commitImage(t, s, "b", image.Config{
		Type: image.TypeKubeInstaller, Cmd: image.Commands{Parent: []string{"base", "mid"}, Current: []string{"b"}}, Env: map[string]string{"B": "2"},
		Applications: []image.Application{{Name: "app", Type: "helm"}},
		Images:       []image.MirroredImage{{Reference: image.ParseName("docker.io/library/nginx:v1"), Digest: "sha256:1"}},
	}, base, addLayer(t, s, file("b", "b"), file("both", "b")), registryLayer(t, s, "library/nginx", "one"))
	_, err := s.Merge(t.Context(), store.MergeOptions{Images: []string{"a", "b"}, Names: names(t, "merged"), Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	img, err := s.Image(t.Context(), "merged", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := img.Config
	if len(c.Layers) != 4 || c.Type != image.TypeKubeInstaller || len(c.Applications) != 1 || c.Images[0].Digest == "" || len(c.Images) != 1 {
		t.Errorf("config %+v", c)
	}
	if diff := cmp.Diff(image.Commands{Parent: []string{"base", "a", "mid"}, Current: []string{"b"}}, c.Cmd); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2"}, c.Env); diff != "" {
		t.Error(diff)
	}
	r, err := s.Rootfs(img.LayerIDs()[:3])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if diff := cmp.Diff(map[string]string{"bin/x": "base", "a": "a", "b": "b", "both": "b"}, content(t, r)); diff != "" {
		t.Error(diff)
	}
}

// TestMergeStacks looks for the files of images that share layers in different
// orders, and have one twice.
func TestMergeStacks(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	base := addLayer(t, s, file("f", "base"), file("g", "base"))
	one, two := addLayer(t, s, file("f", "one")), addLayer(t, s, file("f", "two"))
	other := addLayer(t, s, file("g", "other"))
	commitImage(t, s, "again", image.Config{}, base, one, two, one)
	commitImage(t, s, "first", image.Config{}, base, one, other)
	commitImage(t, s, "later", image.Config{}, base, two, one)
	commitImage(t, s, "plain", image.Config{}, base)
	for _, tc := range []struct {
		images []string
		f, g   string
	}{
		{[]string{"again"}, "one", "base"},
		{[]string{"first", "later"}, "one", "other"},
		{[]string{"later", "first"}, "one", "other"},
		{[]string{"first", "plain"}, "one", "other"},
		{[]string{"again", "first"}, "one", "other"},
	} {
		if _, err := s.Merge(t.Context(), store.MergeOptions{Images: tc.images, Names: names(t, "merged")}); err != nil {
			t.Fatal(err)
		}
		img, err := s.Image(t.Context(), "merged", nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(img.Config.Layers) != len(img.Layers) {
			t.Errorf("%v: %d layers, %d in the config", tc.images, len(img.Layers), len(img.Config.Layers))
		}
		r, err := s.Rootfs(img.LayerIDs())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if diff := cmp.Diff(map[string]string{"f": tc.f, "g": tc.g}, content(t, r)); diff != "" {
			t.Errorf("%v: %s", tc.images, diff)
		}
	}
}

func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	commitImage(t, s, "nginx-1", image.Config{Applications: []image.Application{{Name: "app", Type: "helm"}}}, registryLayer(t, s, "library/nginx", "one"))
	commitImage(t, s, "nginx-2", image.Config{}, registryLayer(t, s, "library/nginx", "two"))
	commitImage(t, s, "app-2", image.Config{Applications: []image.Application{{Name: "app", Type: "shell"}}}, addLayer(t, s, file("a", "a")))
	commitImage(t, s, "registry-2", image.Config{PrivateRegistry: image.PrivateRegistry{Name: "other.hub:5000", Naming: tree.NamingPath}}, addLayer(t, s, file("a", "a")))
	if err := s.Commit(t.Context(), names(t, "foreign"), write(t, s, "linux/s390x")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"nginx-2": store.ErrInvalid, "app-2": store.ErrInvalid, "registry-2": store.ErrInvalid, "foreign": store.ErrInvalid, "nothing": store.ErrNotFound,
	} {
		if _, err := s.Merge(t.Context(), store.MergeOptions{Images: []string{"nginx-1", name}, Names: names(t, "merged")}); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	base := addLayer(t, s, file("same", "x"), file("gone", "x"), file("content", "1"), entry{name: "mode", content: "x"}, entry{name: "link", link: "a"}, file("type", "x"))
	commitImage(t, s, "a", image.Config{}, base, registryLayer(t, s, "library/nginx", "one"), registryLayer(t, s, "library/old", "old"))
	commitImage(t, s, "b", image.Config{}, base, addLayer(t, s, file("same", "x"), file(".wh.gone", ""), file("content", "2"), entry{name: "mode", content: "x", mode: 0o755},
		entry{name: "link", link: "b"}, file("type/now", "x")), registryLayer(t, s, "library/nginx", "two"), registryLayer(t, s, "library/new", "new"))
	d, err := s.Diff(t.Context(), "a", "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range append(d.Files, d.Images...) {
		got[c.Name] = c.Kind
	}
	want := map[string]string{
		"gone": "removed", "content": "changed", "mode": "changed", "link": "changed", "type": "changed", "type/now": "added",
		"library/nginx:v1": "changed", "library/old:v1": "removed", "library/new:v1": "added",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if d, err := s.Diff(t.Context(), "a", "a", nil); err != nil || len(d.Files)+len(d.Images) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
