package image

import (
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// A Layer is one layer of a ClusterImage: its ID and its blobs.
type Layer struct {
	// ID is of a rootfs layer the digest of its uncompressed tar, of a registry
	// layer the digest of its document.
	ID digest.Digest
	// Descriptors are the layer's entries in a manifest: of a rootfs layer one,
	// of a registry layer its document's and then one for each blob that it
	// adds. Their origin annotations are set by WriteImage.
	Descriptors []ocispec.Descriptor
	// Size is of a rootfs layer the bytes of its unpacked files, of a registry
	// layer the bytes of the blobs that it adds.
	Size int64
}

// IsRegistry reports whether l is a registry layer.
func (l Layer) IsRegistry() bool {
	return len(l.Descriptors) > 0 && l.Descriptors[0].MediaType == tree.MediaTypeDocument
}

// RegistryLayer describes the layer of doc, whose document is the blob desc.
func RegistryLayer(desc ocispec.Descriptor, doc *tree.Document) Layer {
	l := Layer{ID: desc.Digest, Descriptors: []ocispec.Descriptor{desc}}
	for _, b := range doc.Blobs {
		l.Descriptors = append(l.Descriptors, ocispec.Descriptor{MediaType: tree.MediaTypeBlob, Digest: b.Digest, Size: b.Size})
		l.Size += b.Size
	}
	return l
}
