package transfer_test

import (
	"bytes"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
)

// A delta for one container image changed of 100 has the blobs that changed and
// less than a hundredth more.
func TestDeltaHasTheChange(t *testing.T) {
	t.Parallel()
	const images, size = 100, 8 << 20
	s := storetest.New(t)
	build(t, s, nil, 0, images, 0, "team/q:v1")
	doc := mirrored(t, s, 0, images, 1)
	large := put(t, s, ocispec.MediaTypeImageLayer, bytes.Repeat([]byte("0123456789abcdef"), size/16))
	doc.Blobs = append(doc.Blobs, tree.Blob{Digest: large.Digest, Size: large.Size})
	last := &doc.Repositories[images-1]
	last.Layers = append(last.Layers, large.Digest)
	v2 := commitDocument(t, s, nil, doc, "team/q:v2")
	without, err := s.ImageInventory(t.Context(), "team/q:v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	held := inventory.Set{}
	held.Add(without)
	var changed, blobs int64
	for _, d := range append([]ocispec.Descriptor{v2.ManifestDescriptor, v2.Manifest.Config}, v2.Manifest.Layers...) {
		if !held.Has(d.Digest, d.Size) {
			changed += d.Size
			blobs++
		}
	}
	var archive counter
	saved, err := s.Save(t.Context(), &archive, []string{"team/q:v2"}, store.SaveOptions{Without: held})
	if err != nil {
		t.Fatal(err)
	}
	if saved.Blobs != blobs || saved.Bytes != changed || blobs != blobsPerImage+1+3 {
		t.Errorf("%d blobs, %d bytes written; %d, %d changed", saved.Blobs, saved.Bytes, blobs, changed)
	}
	if most := changed + changed/100; int64(archive) > most {
		t.Errorf("a delta of %d bytes for %d that changed, at most %d are good", archive, changed, most)
	}
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
