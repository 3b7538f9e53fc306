package store

import (
	"fmt"
	"os"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Removing images leaves the layers of the others, with the cache, with a broken one
// and with one that lies about nothing but is cut.
func TestLayerCache(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	writeImages(t, s, 6, 3, 100)
	need := func() *need {
		n, err := s.needed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	remove := func(i int) {
		if r, err := s.Remove(t.Context(), fmt.Sprintf("app:v%d", i)); err != nil || r.ID == "" {
			t.Fatal(r, err)
		}
	}
	remove(0)
	whole := need()
	b, err := os.ReadFile(s.layerCacheFile())
	if err != nil {
		t.Fatal(err)
	}
	if c := s.readLayerCache(); len(c.was) != 5 {
		t.Errorf("the cache has %d configs, want 5", len(c.was))
	}
	for name, content := range map[string][]byte{"empty": {}, "cut": b[:len(b)-1], "changed": append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1)} {
		if err := os.WriteFile(s.layerCacheFile(), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if c := s.readLayerCache(); len(c.was) != 0 {
			t.Errorf("%s: %d configs are believed", name, len(c.was))
		}
		if again := need(); len(again.layers) != len(whole.layers) || len(again.blobs) != len(whole.blobs) {
			t.Errorf("%s: %d layers and %d blobs are needed, want %d and %d", name, len(again.layers), len(again.blobs), len(whole.layers), len(whole.blobs))
		}
	}
	again := need() // from the cache
	for id := range whole.layers {
		if !again.layers[id] {
			t.Errorf("with the cache, layer %s is not needed", id)
		}
	}
	// A config that is gone is damage, whatever the cache knows.
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var m ocispec.Manifest
	if err := s.readJSON(t.Context(), list[0].Descriptor, maxManifest, &m); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.BlobPath(m.Config.Digest)); err != nil {
		t.Fatal(err)
	}
	if n := need(); !n.allLayers || len(n.damaged) != 1 {
		t.Errorf("without a config: %v", n.damaged)
	}
}
