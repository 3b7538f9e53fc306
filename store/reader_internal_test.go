package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

// blobsIn returns a reader of a new directory, and a function that puts a blob
// there: text as it is, else JSON.
func blobsIn(t *testing.T) (*reader, func(mediaType string, v any) ocispec.Descriptor) {
	t.Helper()
	dir := t.TempDir()
	return &reader{dirs: []string{filepath.Join(dir, "none"), dir}}, func(mediaType string, v any) ocispec.Descriptor {
		b, err := json.Marshal(v)
		if s, ok := v.(string); ok {
			b = []byte(s)
		}
		d := digest.FromBytes(b)
		if err = errors.Join(err, os.WriteFile(filepath.Join(dir, d.Encoded()), b, 0o600)); err != nil {
			t.Fatal(err)
		}
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(b))}
	}
}

func TestReadBlob(t *testing.T) {
	t.Parallel()
	r, put := blobsIn(t)
	d := put("", "12345")
	for limit, ok := range map[int64]bool{6: true, 5: true, 4: false} {
		if b, err := r.ReadBlob(t.Context(), d.Digest, limit); (err == nil) != ok || ok && string(b) != "12345" || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("limit %d: %q, %v", limit, b, err)
		}
	}
	if err := os.WriteFile(r.path(d.Digest), []byte("12346"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ReadBlob(t.Context(), d.Digest, 5); !errors.Is(err, ErrMismatch) {
		t.Errorf("another content: %v", err)
	}
}

// TestIndexEntries takes the manifests of an index that are there and a
// platform's, and refuses all that is no index.
func TestIndexEntries(t *testing.T) {
	t.Parallel()
	r, put := blobsIn(t)
	m := put(ocispec.MediaTypeImageManifest, `{"a":1}`)
	m.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
	gone, bad, attested, artifact := m, m, m, m
	gone.Digest = digest.FromString("gone")
	bad.Digest = "sha256:../../x"
	attested.Platform = &ocispec.Platform{OS: "unknown", Architecture: "unknown"}
	artifact.Platform = nil
	index := func(list ...ocispec.Descriptor) ocispec.Descriptor {
		return put(ocispec.MediaTypeImageIndex, ocispec.Index{Manifests: list})
	}
	wrong := index(m)
	wrong.Size++
	for name, tc := range map[string]struct {
		desc ocispec.Descriptor
		n    int
		err  error
		says string
	}{
		"a manifest":       {m, 1, nil, ""},
		"an index":         {index(gone, attested, artifact, m), 1, nil, ""},
		"twice":            {index(m, m), 2, nil, ""},
		"none of it there": {index(gone, attested, artifact), 0, ErrNotFound, "no manifest of it"},
		"empty":            {index(), 0, ErrNotFound, "no manifest of it"},
		"not there":        {ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: gone.Digest}, 0, ErrNotFound, "image index"},
		"another size":     {wrong, 0, ErrMismatch, "image index"},
		"no digest":        {index(m, bad), 0, nil, "image index"},
		"no JSON":          {put(ocispec.MediaTypeImageIndex, "x"), 0, ErrInvalid, "image index"},
		"another type":     {put(ocispec.MediaTypeImageLayer, "y"), 0, ErrInvalid, "not a manifest or an image index"},
	} {
		got, _, err := r.manifests(t.Context(), tc.desc)
		if len(got) != tc.n || (err != nil) != (tc.says != "") || tc.err != nil && !errors.Is(err, tc.err) || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %d manifests, %v", name, len(got), err)
		}
	}
}

// TestLayersThatLie refuses a config whose layers are not those of its manifest.
func TestLayersThatLie(t *testing.T) {
	t.Parallel()
	r, put := blobsIn(t)
	one, two := put(ocispec.MediaTypeImageLayerGzip, "1"), put(ocispec.MediaTypeImageLayerGzip, "2")
	id := image.ConfigLayer{ID: digest.FromString("id"), Size: 1}
	for name, tc := range map[string]struct {
		layers      []image.ConfigLayer
		descriptors []ocispec.Descriptor
		says        string
	}{
		"equal":             {[]image.ConfigLayer{id, id}, []ocispec.Descriptor{one, two}, ""},
		"none":              {nil, nil, ""},
		"the config's more": {[]image.ConfigLayer{id, id}, []ocispec.Descriptor{one}, "the config has 2 layers, the manifest 1"},
		"the manifest's":    {[]image.ConfigLayer{id}, []ocispec.Descriptor{one, two}, "the manifest has layers that the config lacks"},
		"no ID":             {[]image.ConfigLayer{{ID: "sha256:x"}}, []ocispec.Descriptor{one}, "layer 0: "},
	} {
		img := &Image{Manifest: ocispec.Manifest{Layers: tc.descriptors}, Config: image.Config{Layers: tc.layers}}
		if err := r.readLayers(t.Context(), img); (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBlobManifestsOf finds the blob manifests of an image by its config, and only
// of one that may have them.
func TestBlobManifestsOf(t *testing.T) {
	t.Parallel()
	r, put := blobsIn(t)
	listed := put(ocispec.MediaTypeImageManifest, "{}")
	config := image.Config{Layers: []image.ConfigLayer{{BlobManifests: []image.BlobManifest{{Digest: listed.Digest, Size: listed.Size}}}}}
	manifest := func(config ocispec.Descriptor) ocispec.Descriptor {
		return put(ocispec.MediaTypeImageManifest, ocispec.Manifest{Config: config})
	}
	gone := ocispec.Descriptor{MediaType: image.MediaTypeSplitConfig, Digest: digest.FromString("gone")}
	for name, tc := range map[string]struct {
		desc ocispec.Descriptor
		n    int
		err  error
	}{
		"split":            {manifest(put(image.MediaTypeSplitConfig, config)), 1, nil},
		"not split":        {manifest(put(image.MediaTypeConfig, config)), 0, nil},
		"no config":        {manifest(gone), 0, ErrNotFound},
		"no manifest":      {gone, 0, ErrNotFound},
		"no JSON":          {put("", "x"), 0, ErrInvalid},
		"no JSON, further": {manifest(put(image.MediaTypeSplitConfig, "y")), 0, ErrInvalid},
	} {
		got, err := r.blobManifests(t.Context(), tc.desc)
		if len(got) != tc.n || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	long := listed
	long.Size++
	if _, err := r.readBlobManifest(t.Context(), long); !errors.Is(err, ErrMismatch) {
		t.Errorf("another size: %v", err)
	}
}
