package store

import (
	"context"
	"errors"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// An Image is a ClusterImage of the store, for one platform.
type Image struct {
	// Names are its normalised references, sorted; empty when it has none.
	Names []string
	// ID is the hex part of Descriptor's digest.
	ID string
	// Descriptor is what the names point at: a manifest, or an image index.
	Descriptor ocispec.Descriptor
	// Index is the content of Descriptor when that is an image index.
	Index *ocispec.Index
	// Platforms are the platforms that the store has of it.
	Platforms []ocispec.Platform
	// ManifestDescriptor is the manifest's descriptor: Descriptor itself, or
	// the index's entry for the platform.
	ManifestDescriptor ocispec.Descriptor
	Manifest           ocispec.Manifest
	// Config is the manifest's config. That of a plain OCI image, as sealer
	// 0.9 and later made them, is translated.
	Config Config
	// Plain tells that it is such a plain OCI image.
	Plain bool
	// Layers are the layers in stacking order, lowest first, one for each of
	// Config.Layers.
	Layers []Layer
	// Documents are the documents of the registry layers, lowest first.
	Documents []*tree.Document
	// Size is the bytes of all blobs of this platform, each counted once.
	Size int64
	// Built is when it was built here, or came here. It is kept beside the
	// image, outside its digest.
	Built time.Time
}

// WriteImage writes the config and the manifest of a ClusterImage whose layers,
// lowest first, are those of a base's Image and those that WriteLayer and
// WriteRegistryLayer returned. c.Layers has an entry for each: its Type and
// Value become annotations of the layer's descriptors; its ID and Size are
// filled in where they are empty. Nothing is visible before Commit.
func (s *Store) WriteImage(ctx context.Context, c Config, layers []Layer, annotations map[string]string) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// WriteIndex writes an image index of the manifests that WriteImage returned,
// one for each platform, in their order.
func (s *Store) WriteIndex(ctx context.Context, manifests []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	return ocispec.Descriptor{}, errors.ErrUnsupported
}

// Commit makes the image desc, a manifest or an image index, visible under
// names; with no names, by its ID alone. It checks that all of it is there,
// unpacks the layers that are not (of a pull, a load), flushes, and replaces
// index.json last. Of an index, platforms may be missing, but not all. An image
// that loses its last name to this one is gone, and prune takes its blobs.
func (s *Store) Commit(ctx context.Context, names []ref.Reference, desc ocispec.Descriptor) error {
	return errors.ErrUnsupported
}

// Image returns an image by its name ("nginx" means
// "docker.io/library/nginx:latest") or by its ID or a unique beginning of that,
// at least 4 characters. Of an image for several platforms it returns p, or
// when p is nil the one for this machine, or when there is only one, that. The
// error wraps ErrNotFound.
func (s *Store) Image(ctx context.Context, nameOrID string, p *ocispec.Platform) (*Image, error) {
	return nil, errors.ErrUnsupported
}

// Images returns all images by name, one entry for each platform that the
// store has, those without a name last.
func (s *Store) Images(ctx context.Context) ([]Image, error) {
	return nil, errors.ErrUnsupported
}

// Tag gives an image one more name, taking it from the image that had it.
func (s *Store) Tag(ctx context.Context, nameOrID string, name ref.Reference) error {
	return errors.ErrUnsupported
}

// A Removal is what Remove did.
type Removal struct {
	Names  []string // the names removed
	ID     string   // the image, when it lost its last name and is gone
	Pruned Pruned   // what nothing needs any more, taken off the disk
}

// Remove removes the name nameOrID or, given an ID, the image with all its
// names. When an image is gone what only it needed is pruned, unless another
// process uses the store: then the next prune takes it.
func (s *Store) Remove(ctx context.Context, nameOrID string) (*Removal, error) {
	return nil, errors.ErrUnsupported
}
