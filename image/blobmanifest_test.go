package image_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
)

// registryLayer returns a registry layer of n blobs.
func registryLayer(name string, n int) image.Layer {
	doc := &tree.Document{}
	for i := range n {
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: digest.FromString(fmt.Sprint(name, i)), Size: int64(i)})
	}
	return image.RegistryLayer(ocispec.Descriptor{MediaType: tree.MediaTypeDocument, Digest: digest.FromString(name), Size: 1}, doc)
}

func TestBlobManifestsFill(t *testing.T) {
	t.Parallel()
	blobs := registryLayer("a", 1000).Descriptors[1:]
	for _, most := range []int64{1, 4000, 4001, 20_000, 1 << 20} {
		rest := blobs
		for len(rest) > 0 {
			b, n, err := image.EncodeBlobManifest(rest, most)
			if err != nil || n == 0 || int64(len(b)) > most && n > 1 {
				t.Fatalf("limit %d: %d blobs, %d bytes, %v", most, n, len(b), err)
			}
			if more, _, _ := image.EncodeBlobManifest(rest[:min(len(rest), n+1)], 1<<30); n < len(rest) && int64(len(more)) <= most {
				t.Errorf("limit %d: %d blobs have %d bytes, and another one fits", most, n, len(b))
			}
			if again, m, _ := image.EncodeBlobManifest(rest, int64(len(b))); string(again) != string(b) || m != n {
				t.Errorf("limit %d: its own length as the limit gives another manifest", most)
			}
			listed, err := image.ListedBlobs(b, rest)
			if err != nil || !slices.EqualFunc(listed, rest[:n], func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest }) {
				t.Fatalf("limit %d: %d listed, %v", most, len(listed), err)
			}
			rest = rest[n:]
		}
	}
}

func TestSplitTakesTheLargest(t *testing.T) {
	t.Parallel()
	rootfs := image.Layer{Descriptors: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageLayerZstd}}}
	layers := []image.Layer{rootfs, registryLayer("a", 100), registryLayer("b", 300), registryLayer("c", 300)}
	for name, tc := range map[string]struct {
		size, most int64
		want       []bool
	}{
		"none":         {5000, 5000, []bool{false, false, false, false}},
		"one":          {5001, 5000, []bool{false, false, true, false}},
		"two":          {60_000, 10_000, []bool{false, false, true, true}},
		"all":          {200_000, 10_000, []bool{false, true, true, true}},
		"files remain": {1 << 30, 10, []bool{false, true, true, true}},
	} {
		if got := image.Split(layers, tc.size, tc.most); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
	if got := image.Split(nil, 10, 1); len(got) != 0 {
		t.Errorf("no layers: %v", got)
	}
}

func TestListedBlobsRefuses(t *testing.T) {
	t.Parallel()
	want := registryLayer("a", 4).Descriptors[1:]
	other := registryLayer("b", 1).Descriptors[1:]
	sized := slices.Clone(want)
	sized[1].Size = 99
	for name, tc := range map[string]struct {
		change func(*ocispec.Manifest)
		fault  string
	}{
		"as it should": {func(*ocispec.Manifest) {}, ""},
		"fewer":        {func(m *ocispec.Manifest) { m.Layers = want[:2] }, ""},
		"none":         {func(m *ocispec.Manifest) { m.Layers = nil }, "lists none"},
		"more":         {func(m *ocispec.Manifest) { m.Layers = append(slices.Clone(want), other...) }, "does not list"},
		"another":      {func(m *ocispec.Manifest) { m.Layers = other }, "does not list"},
		"twice":        {func(m *ocispec.Manifest) { m.Layers = []ocispec.Descriptor{want[0], want[0]} }, "does not list"},
		"other order":  {func(m *ocispec.Manifest) { m.Layers = []ocispec.Descriptor{want[1], want[0]} }, "does not list"},
		"other size":   {func(m *ocispec.Manifest) { m.Layers = sized }, "does not list"},
		"an image":     {func(m *ocispec.Manifest) { m.ArtifactType = image.ArtifactType }, "of the type"},
		"an index":     {func(m *ocispec.Manifest) { m.MediaType = ocispec.MediaTypeImageIndex }, "it is a"},
		"with config":  {func(m *ocispec.Manifest) { m.Config = other[0] }, "has a config"},
	} {
		b, _, err := image.EncodeBlobManifest(want, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		tc.change(&m)
		if b, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		_, err = image.ListedBlobs(b, want)
		if tc.fault == "" && err != nil || tc.fault != "" && (!errors.Is(err, image.ErrBlobManifest) || !strings.Contains(err.Error(), tc.fault)) {
			t.Errorf("%s: %v, want %q", name, err, tc.fault)
		}
	}
	if _, err := image.ListedBlobs([]byte("{"), want); !errors.Is(err, image.ErrBlobManifest) {
		t.Errorf("no JSON: %v", err)
	}
}

// FuzzListedBlobs asks that nothing but the blobs that are wanted is ever listed.
func FuzzListedBlobs(f *testing.F) {
	want := registryLayer("a", 4).Descriptors[1:]
	for _, n := range []int{1, 4} {
		b, _, err := image.EncodeBlobManifest(want[:n], 1<<20)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"layers":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		listed, err := image.ListedBlobs(b, want)
		if err == nil && (len(listed) == 0 || len(listed) > len(want)) {
			t.Errorf("%d blobs of %d", len(listed), len(want))
		}
	})
}

func TestConfigNamesTooManyBlobManifests(t *testing.T) {
	t.Parallel()
	c := image.Config{Layers: []image.ConfigLayer{{BlobManifests: make([]image.BlobManifest, image.MaxBlobManifests)}}}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	c.Layers = append(c.Layers, image.ConfigLayer{BlobManifests: make([]image.BlobManifest, 1)})
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), "4097 manifests") {
		t.Errorf("%v", err)
	}
}
