package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
)

const (
	// registryManifest is the size of a manifest that every registry takes, of the
	// OCI distribution specification: about 24,000 blobs.
	registryManifest = 4 << 20
	// maxManifest bounds the manifests and indexes that a store reads.
	maxManifest = 16 << 20
	// maxConfig bounds configs.
	maxConfig = 64 << 20
	// maxDocument bounds registry layer documents. One blob takes about 110 bytes
	// of a document, more when it is a manifest, and more yet of the image's
	// manifest: maxManifest is reached first.
	maxDocument = 32 << 20
	// maxRead bounds the documents that are read of images in the store, whatever
	// their limit was when they came.
	maxRead = 1 << 30
)

// errLongDocument is the error for a document of more than limit bytes.
func errLongDocument(limit int64) error {
	return fmt.Errorf("%w: %w: a registry layer document of more than %d bytes", ErrInvalid, ErrLimit, limit)
}

// WriteImage writes the config and the manifest of a ClusterImage whose layers,
// lowest first, are those of a base's Image and those that WriteLayer and
// WriteRegistryLayer returned. c.Layers has an entry for each: its Type and
// Value become annotations of the layer's descriptors; its ID and Size are set
// from the layer. Nothing is visible before Commit.
func (s *Store) WriteImage(ctx context.Context, c image.Config, layers []image.Layer, annotations map[string]string) (ocispec.Descriptor, error) {
	if len(c.Layers) != len(layers) {
		return ocispec.Descriptor{}, fmt.Errorf("write image: %w: the config has %d layers, not %d", ErrInvalid, len(c.Layers), len(layers))
	}
	c.Layers = slices.Clone(c.Layers)
	m := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: image.ArtifactType,
		Layers:       []ocispec.Descriptor{},
		Annotations:  annotations,
	}
	for i, l := range layers {
		c.Layers[i].ID, c.Layers[i].Size = l.ID, l.Size
		for j, d := range l.Descriptors {
			d.Annotations = nil
			if j == 0 { // the thousands of blobs of a registry layer would fill the manifest with theirs
				d.Annotations = map[string]string{image.AnnotationLayerType: c.Layers[i].Type, image.AnnotationLayerValue: c.Layers[i].Value}
			}
			m.Layers = append(m.Layers, d)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	if m.Config, err = s.putBytes(ctx, image.MediaTypeConfig, b); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	if b, err = json.Marshal(m); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	if len(b) > registryManifest {
		s.o.Logger.Warn(fmt.Sprintf("the image's manifest has %d bytes, and registries take %d, about %d of its %d blobs: carry it by sealer save, or make two images of it",
			len(b), registryManifest, len(m.Layers)*registryManifest/len(b), len(m.Layers)))
	}
	desc, err := s.putBytes(ctx, m.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	desc.Platform = &c.Platform
	return desc, nil
}

// WriteIndex writes an image index of the manifests that WriteImage returned,
// one for each platform, in their order.
func (s *Store) WriteIndex(ctx context.Context, manifests []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	idx := newIndex()
	// No artifactType, here or in the entries: skopeo 1.9.3 (Debian 12) drops it as it
	// copies, and the digest changes. The manifests have it.
	idx.Manifests = append(idx.Manifests, manifests...)
	idx.Annotations = annotations
	b, err := json.Marshal(idx)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write image index: %w", err)
	}
	desc, err := s.putBytes(ctx, idx.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write image index: %w", err)
	}
	return desc, nil
}

// imageSize returns the bytes of all blobs of a manifest, each counted once.
func imageSize(desc ocispec.Descriptor, m *ocispec.Manifest) int64 {
	seen := map[digest.Digest]bool{}
	var n int64
	for _, d := range append([]ocispec.Descriptor{desc, m.Config}, m.Layers...) {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			n += d.Size
		}
	}
	return n
}

// platformOf returns the platform of a manifest's descriptor, or when it says
// none, that of the config.
func platformOf(desc ocispec.Descriptor, c image.Config) ocispec.Platform {
	if desc.Platform != nil {
		return platform.Normalize(*desc.Platform)
	}
	return platform.Normalize(c.Platform)
}
