package store

import (
	"context"
	"errors"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
)

// The compressions of a rootfs layer's blob.
const (
	CompressionZstd = "zstd" // the default
	CompressionGzip = "gzip"
	CompressionNone = "none"
)

// LayerOptions are the options of WriteLayer.
type LayerOptions struct {
	// Compression of the blob; "" is CompressionZstd. Equal tars and equal
	// options give equal blobs, on any number of processors.
	Compression string
}

// A Layer is a layer that the store has, blob and unpacked directory.
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

// WriteLayer makes a rootfs layer of the uncompressed tar that write writes:
// in one pass it is hashed, compressed into a blob and unpacked, and both
// appear together. Directories need not be listed before their files.
// Deletions are written as ".wh." files (see the package's documentation).
// The error wraps ErrInvalid for a tar that tries to leave its layer, and
// write's error when that failed.
func (s *Store) WriteLayer(ctx context.Context, o LayerOptions, write func(w io.Writer) error) (Layer, error) {
	return Layer{}, errors.ErrUnsupported
}

// WriteRegistryLayer makes the registry layer of doc, whose blobs the store
// must have: the document's blob, and the tree in which each blob is a hard
// link. doc is sorted by it.
func (s *Store) WriteRegistryLayer(ctx context.Context, doc *tree.Document) (Layer, error) {
	return Layer{}, errors.ErrUnsupported
}

// OverlayDirs returns the directories of the layers, lowest first, in the form
// that overlayfs wants: a layer with deletions is represented by a copy of
// hard links, made once and kept, in which they are character devices 0:0 and
// the attribute overlay.opaque (of the namespace "user." when userxattr is
// set, as in a mount inside a user namespace, else "trusted."). Every other
// layer is its own directory.
func (s *Store) OverlayDirs(ctx context.Context, ids []digest.Digest, userxattr bool) ([]string, error) {
	return nil, errors.ErrUnsupported
}
