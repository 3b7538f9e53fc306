package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// A manifest that no registry takes is told when it is made. Mirrored blobs make
// none: those beyond the limit are listed in blob manifests.
func TestManifestTooLargeForRegistries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first         string // media type of the layer's first descriptor
		blobs, listed int    // listed by the manifest
		told          bool
	}{
		"fits":           {tree.MediaTypeDocument, 20_000, 20_001, false},
		"blob manifests": {tree.MediaTypeDocument, 30_000, 1, false},
		"other blobs":    {tree.MediaTypeBlob, 30_000, 30_001, true},
	} {
		var log bytes.Buffer
		s, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := image.Layer{ID: digest.FromString("document"), Descriptors: []ocispec.Descriptor{{MediaType: tc.first, Digest: digest.FromString("document"), Size: 1}}}
		for i := range tc.blobs {
			l.Descriptors = append(l.Descriptors, ocispec.Descriptor{MediaType: tree.MediaTypeBlob, Digest: digest.FromString(fmt.Sprint(i)), Size: 1 << 20})
		}
		c := image.Config{Layers: []image.ConfigLayer{{Type: image.LayerTypeBase, Value: image.RegistryLayerValue}}}
		desc, err := s.WriteImage(t.Context(), c, []image.Layer{l}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "registries take 4194304"); got != tc.told {
			t.Errorf("%s: %q", name, log.String())
		}
		b, err := s.ReadBlob(t.Context(), desc.Digest, 16<<20)
		if err != nil {
			t.Fatal(err)
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(b, &m); err != nil || len(m.Layers) != tc.listed {
			t.Errorf("%s: the manifest lists %d, want %d: %v", name, len(m.Layers), tc.listed, err)
		}
		top, err := s.WriteTop(t.Context(), []ocispec.Descriptor{desc}, nil)
		if err != nil || (top.Digest != desc.Digest) != (tc.listed == 1) {
			t.Errorf("%s: the top is %s, the manifest %s: %v", name, top.Digest, desc.Digest, err)
		}
	}
}
