package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/ref"
)

// A merge for several platforms is an index; for one it is a manifest.
func TestMergeOfPlatforms(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	var manifests []ocispec.Descriptor
	for _, arch := range []string{"amd64", "arm64"} {
		d, err := s.WriteImage(t.Context(), image.Config{Platform: ocispec.Platform{OS: "linux", Architecture: arch}}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, d)
	}
	name := func(text string) []ref.Reference {
		r, err := ref.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return []ref.Reference{r}
	}
	idx, err := s.WriteIndex(t.Context(), manifests, nil)
	if err == nil {
		err = s.Commit(t.Context(), name("both"), idx)
	}
	if err == nil {
		err = s.Commit(t.Context(), name("one"), manifests[1])
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		images    []string
		platforms int
		mediaType string
	}{
		{[]string{"both"}, 2, ocispec.MediaTypeImageIndex},
		{[]string{"both", "one"}, 1, ocispec.MediaTypeImageManifest},
		{[]string{"one"}, 1, ocispec.MediaTypeImageManifest},
	} {
		d, err := s.Merge(t.Context(), MergeOptions{Images: tc.images, Names: name("merged"), Version: "1"})
		if err != nil || d.MediaType != tc.mediaType {
			t.Errorf("%v: %+v, %v; want %s", tc.images, d, err, tc.mediaType)
			continue
		}
		img, err := s.Image(t.Context(), "merged", nil)
		if err != nil || len(img.Platforms) != tc.platforms {
			t.Errorf("%v: %+v, %v", tc.images, img, err)
		}
	}
}

// Commands of a common base run once, those of each image after them, and settings
// of equal numbers are joined like others.
func TestMergeCommands(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ a, b, want image.Commands }{
		"the second is the base of the first": {image.Commands{Parent: []string{"base"}, Current: []string{"a"}}, image.Commands{Current: []string{"base"}}, image.Commands{Parent: []string{"base", "a"}}},
		"one base":                            {image.Commands{Parent: []string{"base"}, Current: []string{"a"}}, image.Commands{Parent: []string{"base"}, Current: []string{"b"}}, image.Commands{Parent: []string{"base", "a"}, Current: []string{"b"}}},
		"a longer base":                       {image.Commands{Parent: []string{"base"}, Current: []string{"a"}}, image.Commands{Parent: []string{"base", "more"}, Current: []string{"b"}}, image.Commands{Parent: []string{"base", "a", "more"}, Current: []string{"b"}}},
		"nothing":                             {image.Commands{}, image.Commands{Current: []string{"b"}}, image.Commands{Current: []string{"b"}}},
	} {
		m := &merger{}
		m.commands(tc.a)
		m.commands(tc.b)
		got := m.config.Cmd
		if len(got.Parent) == 0 {
			got.Parent = nil
		}
		if len(got.Current) == 0 {
			got.Current = nil
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, tc := range []struct{ a, b, want map[string]string }{
		{nil, nil, nil},
		{map[string]string{}, nil, nil},
		{map[string]string{"a": "1"}, map[string]string{"b": "2"}, map[string]string{"a": "1", "b": "2"}},
		{nil, map[string]string{"b": "2"}, map[string]string{"b": "2"}},
		{map[string]string{"a": "1"}, map[string]string{"a": "2"}, map[string]string{"a": "2"}},
	} {
		if diff := cmp.Diff(tc.want, union(tc.a, tc.b)); diff != "" {
			t.Errorf("%v and %v (-want +got):\n%s", tc.a, tc.b, diff)
		}
	}
}

// Of a layer that occurs twice the highest is kept, the lowest one of all included.
func TestMergeKeepsTheHighestLayer(t *testing.T) {
	t.Parallel()
	layers := func(names string) (out []image.Layer, in []image.ConfigLayer) {
		for _, n := range names {
			out = append(out, image.Layer{ID: digest.FromString(string(n))})
			in = append(in, image.ConfigLayer{Value: string(n)})
		}
		return out, in
	}
	for _, tc := range []struct{ a, b, want string }{{"xy", "zx", "yzx"}, {"xy", "xz", "xyz"}, {"x", "x", "x"}, {"xyz", "yw", "xzyw"}} {
		m := &merger{}
		for _, names := range []string{tc.a, tc.b} {
			img := &Image{}
			img.Layers, img.Config.Layers = layers(names)
			m.stack(img)
		}
		got := ""
		for i, l := range m.config.Layers {
			got += l.Value
			if m.layers[i].ID != digest.FromString(l.Value) {
				t.Errorf("%s and %s: layer %d is not the one of the config", tc.a, tc.b, i)
			}
		}
		if got != tc.want {
			t.Errorf("%s and %s: %s, want %s", tc.a, tc.b, got, tc.want)
		}
	}
}
