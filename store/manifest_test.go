package store_test

import (
	"bytes"
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

// A manifest that no registry takes is told when it is made, with the number of
// blobs that would fit.
func TestManifestTooLargeForRegistries(t *testing.T) {
	t.Parallel()
	for blobs, told := range map[int]bool{20_000: false, 30_000: true} {
		var log bytes.Buffer
		s, err := store.Open(t.TempDir(), store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		l := image.Layer{ID: digest.FromString("document")}
		for i := range blobs {
			l.Descriptors = append(l.Descriptors, ocispec.Descriptor{MediaType: tree.MediaTypeBlob, Digest: digest.FromString(fmt.Sprint(i)), Size: 1 << 20})
		}
		c := image.Config{Layers: []image.ConfigLayer{{Type: image.LayerTypeBase, Value: image.RegistryLayerValue}}}
		if _, err := s.WriteImage(t.Context(), c, []image.Layer{l}, nil); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(log.String(), "registries take 4194304"); got != told {
			t.Errorf("%d blobs: %q", blobs, log.String())
		}
	}
}
