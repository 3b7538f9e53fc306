package store

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
)

// apart verifies the blob manifests of the image with the manifest man and the blobs
// that they list, and reports as blobs does. A blob manifest follows from its
// layer's document: to repair it, no registry is needed.
func (v *verifier) apart(ctx context.Context, man *ocispec.Manifest) (bool, error) {
	if man.Config.MediaType != image.MediaTypeSplitConfig {
		return true, nil
	}
	layers, err := v.s.configLayers(ctx, man.Config)
	if err != nil {
		v.fault("blob "+man.Config.Digest.String(), err, false)
		return false, nil
	}
	d, empty := image.EmptyConfig()
	v.derived = map[digest.Digest][]byte{d.Digest: empty}
	all := []ocispec.Descriptor{d}
	for _, l := range layers {
		if len(l.BlobManifests) == 0 {
			continue
		}
		for _, m := range l.BlobManifests {
			all = append(all, m.Descriptor())
		}
		if doc, err := v.s.Document(ctx, l.ID); err == nil { // else readImage tells
			blobs := image.RegistryLayer(ocispec.Descriptor{Digest: l.ID}, doc).Descriptors[1:]
			v.derive(l.BlobManifests, blobs)
			all = append(all, blobs...)
		}
	}
	return v.blobs(ctx, all...)
}

// derive notes the blob manifests of list, as they follow from the blobs of their
// layer.
func (v *verifier) derive(list []image.BlobManifest, blobs []ocispec.Descriptor) {
	for _, m := range list {
		b, n, err := image.EncodeBlobManifest(blobs, m.Size)
		if err != nil || n == 0 || digest.FromBytes(b) != m.Digest {
			return // another program wrote it
		}
		v.derived[m.Digest] = b
		blobs = blobs[n:]
	}
}

// repair writes the content of a blob that is missing or broken.
func (v *verifier) repair(ctx context.Context, d ocispec.Descriptor, w io.Writer) error {
	if b, ok := v.derived[d.Digest]; ok {
		_, err := w.Write(b)
		return err
	}
	return v.o.Repair(ctx, d, w)
}
