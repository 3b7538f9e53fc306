package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// apart commits an image whose mirrored blobs are listed in several blob manifests.
func apart(t *testing.T, s *store.Store) *store.Image {
	t.Helper()
	doc := &tree.Document{}
	for i := range 40 {
		one := document(t, s, fmt.Sprintf("apps/a%02d", i), fmt.Sprintf(`{"n":%d}`, i))
		doc.Repositories, doc.Blobs = append(doc.Repositories, one.Repositories...), append(doc.Blobs, one.Blobs...)
	}
	l, err := s.WriteRegistryLayer(t.Context(), doc)
	if err != nil {
		t.Fatal(err)
	}
	top, err := s.WriteTop(t.Context(), []ocispec.Descriptor{write(t, s, "linux/amd64", addLayer(t, s, file("a", "b")), l)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), names(t, "apart:v1"), top); err != nil {
		t.Fatal(err)
	}
	im, err := s.Image(t.Context(), "apart:v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(im.Config.Layers[1].BlobManifests) < 3 || len(im.Manifest.Layers) != 2 {
		t.Fatalf("%d blob manifests, %d descriptors", len(im.Config.Layers[1].BlobManifests), len(im.Manifest.Layers))
	}
	return im
}

func openSplitting(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.TempDir(), store.Options{Limits: store.Limits{Manifest: 3000}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A config that lies about its blob manifests makes no image, and the one that is
// there stays.
func TestBlobManifestsThatLie(t *testing.T) {
	t.Parallel()
	s := openSplitting(t)
	im := apart(t, s)
	honest := im.Config.Layers[1].BlobManifests
	of := func(content []byte) image.BlobManifest {
		d := blob(t, s, string(content))
		return image.BlobManifest{Digest: d.Digest, Size: d.Size}
	}
	raw, err := s.ReadBlob(t.Context(), honest[0].Digest, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	with := func(i int, m image.BlobManifest) []image.BlobManifest {
		out := slices.Clone(honest)
		out[i] = m
		return out
	}
	for name, tc := range map[string]struct {
		list      []image.BlobManifest
		mediaType string
		fault     string
	}{
		"twice":          {append(slices.Clone(honest), honest[0]), "", "one manifest of mirrored blobs too many"},
		"first twice":    {append(honest[:1:1], honest...), "", "does not list what its layer adds"},
		"other order":    {append(honest[1:len(honest):len(honest)], honest[0]), "", "does not list what its layer adds"},
		"one less":       {honest[:len(honest)-1], "", "manifests of mirrored blobs lack "},
		"none":           {[]image.BlobManifest{}, "", "does not list what registry layer"},
		"not there":      {with(1, image.BlobManifest{Digest: im.ManifestDescriptor.Digest[:len(im.ManifestDescriptor.Digest)-4] + "0000", Size: 7}), "", "not found"},
		"no digest":      {with(1, image.BlobManifest{Digest: "sha256:../../x", Size: 7}), "", "digest"},
		"other size":     {with(0, image.BlobManifest{Digest: honest[0].Digest, Size: honest[0].Size + 1}), "", "want"},
		"itself":         {with(0, image.BlobManifest{Digest: im.ManifestDescriptor.Digest, Size: im.ManifestDescriptor.Size}), "", "it is a"},
		"the index":      {with(0, image.BlobManifest{Digest: im.Descriptor.Digest, Size: im.Descriptor.Size}), "", "it is a"},
		"no JSON":        {with(0, of([]byte("x"))), "", "invalid"},
		"other type":     {with(0, of([]byte(strings.Replace(string(raw), image.ArtifactTypeBlobs, "application/x", 1)))), "", "of the type"},
		"a huge list":    {make([]image.BlobManifest, image.MaxBlobManifests+1), "", "the limit is 4096"},
		"of version one": {honest, image.MediaTypeConfig, "in a config of the type"},
	} {
		c := im.Config
		c.Layers = slices.Clone(c.Layers)
		c.Layers[1].BlobManifests = tc.list
		m := im.Manifest
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		config := blob(t, s, string(b))
		m.Config.Digest, m.Config.Size = config.Digest, config.Size
		if tc.mediaType != "" {
			m.Config.MediaType = tc.mediaType
		}
		if b, err = json.Marshal(m); err != nil {
			t.Fatal(err)
		}
		d := blob(t, s, string(b))
		d.MediaType, d.Platform = m.MediaType, im.ManifestDescriptor.Platform
		err = s.Commit(t.Context(), names(t, "lies:v1"), d)
		if err == nil || !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v, want %q", name, err, tc.fault)
		}
	}
	on := im.Config
	on.Layers = slices.Clone(on.Layers)
	on.Layers[0].BlobManifests, on.Layers[1].BlobManifests = honest, nil
	m := im.Manifest
	b, _ := json.Marshal(on)
	config := blob(t, s, string(b))
	m.Config.Digest, m.Config.Size = config.Digest, config.Size
	b, _ = json.Marshal(m)
	d := blob(t, s, string(b))
	d.MediaType = m.MediaType
	if err := s.Commit(t.Context(), nil, d); err == nil || !strings.Contains(err.Error(), "is no registry layer") {
		t.Errorf("of a layer of files: %v", err)
	}
	if _, err := s.Image(t.Context(), "lies:v1", nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an image that lies is there: %v", err)
	}
	if v, err := s.Verify(t.Context(), "apart:v1", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		t.Errorf("%v, %v", v, err)
	}
}

// Prune keeps the blobs that blob manifests list, and every blob where one of them
// or the config that names them cannot be read.
func TestPruneFollowsBlobManifests(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*store.Image) ocispec.Descriptor{
		"nothing":         func(*store.Image) ocispec.Descriptor { return ocispec.Descriptor{} },
		"a blob manifest": func(im *store.Image) ocispec.Descriptor { return im.Config.BlobManifests()[1] },
		"the config":      func(im *store.Image) ocispec.Descriptor { return im.Manifest.Config },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSplitting(t)
			im := apart(t, s)
			other := blob(t, s, "garbage")
			d := lost(im)
			if d.Digest != "" {
				remove(t, s.BlobPath(d.Digest))
			}
			_, err := s.Prune(t.Context(), store.PruneOptions{})
			if (d.Digest != "") != errors.Is(err, store.ErrDamaged) {
				t.Fatal(err)
			}
			for _, b := range im.Descriptors() {
				if has, err := s.HasBlob(t.Context(), b.Digest); !has && b.Digest != d.Digest || err != nil {
					t.Errorf("blob %s is gone: %v", b.Digest, err)
				}
			}
			if has, _ := s.HasBlob(t.Context(), other.Digest); has != (d.Digest != "") {
				t.Errorf("garbage is there: %v", has)
			}
		})
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
