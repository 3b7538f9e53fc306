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
	// splitManifest is the size beyond which a manifest leaves mirrored blobs to blob
	// manifests: about 21,000 blobs.
	splitManifest = 7 << 19
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
// Value become annotations of the layer's descriptors; the other fields are set
// from the layer. Where the manifest would be longer than Limits.Manifest, the
// blob manifests of its registry layers are written, too: WriteTop lists them in
// the image's index. Nothing is visible before Commit.
func (s *Store) WriteImage(ctx context.Context, c image.Config, layers []image.Layer, annotations map[string]string) (ocispec.Descriptor, error) {
	if len(c.Layers) != len(layers) {
		return ocispec.Descriptor{}, fmt.Errorf("write image: %w: the config has %d layers, not %d", ErrInvalid, len(c.Layers), len(layers))
	}
	c.Layers = slices.Clone(c.Layers)
	for i, l := range layers {
		c.Layers[i].ID, c.Layers[i].Size, c.Layers[i].BlobManifests = l.ID, l.Size, nil
	}
	mediaType, err := s.split(ctx, &c, layers, annotations)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifests of mirrored blobs: %w", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	config, err := s.putBytes(ctx, mediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	m := manifestOf(&c, layers, annotations)
	m.Config = config
	if b, err = json.Marshal(m); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	if len(b) > registryManifest {
		s.o.Logger.Warn(fmt.Sprintf("the image's manifest has %d bytes, and registries take %d: carry it by sealer save, or make two images of it", len(b), registryManifest))
	}
	desc, err := s.putBytes(ctx, m.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	desc.Platform = &c.Platform
	return desc, nil
}

// manifestOf returns the manifest of an image without its config's descriptor.
func manifestOf(c *image.Config, layers []image.Layer, annotations map[string]string) *ocispec.Manifest {
	m := &ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: image.ArtifactType,
		Layers:       []ocispec.Descriptor{},
		Annotations:  annotations,
	}
	for i, l := range layers {
		for j, d := range l.Descriptors {
			d.Annotations = nil
			if j == 0 { // the thousands of blobs of a registry layer would fill the manifest with theirs
				d.Annotations = map[string]string{image.AnnotationLayerType: c.Layers[i].Type, image.AnnotationLayerValue: c.Layers[i].Value}
			} else if len(c.Layers[i].BlobManifests) > 0 {
				break
			}
			m.Layers = append(m.Layers, d)
		}
	}
	return m
}

// split writes the blob manifests of the layers that need some, notes them in c,
// and returns the media type of c.
func (s *Store) split(ctx context.Context, c *image.Config, layers []image.Layer, annotations map[string]string) (string, error) {
	m := manifestOf(c, layers, annotations)
	m.Config = ocispec.Descriptor{MediaType: image.MediaTypeConfig, Digest: digest.FromString(""), Size: maxConfig}
	whole, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	most := s.o.Limits.manifest()
	mediaType := image.MediaTypeConfig
	for i, apart := range image.Split(layers, int64(len(whole)), most) {
		if !apart {
			continue
		}
		mediaType = image.MediaTypeSplitConfig
		for rest := layers[i].Descriptors[1:]; len(rest) > 0; {
			b, n, err := image.EncodeBlobManifest(rest, most)
			if err != nil {
				return "", err
			}
			d, err := s.putBytes(ctx, ocispec.MediaTypeImageManifest, b)
			if err != nil {
				return "", err
			}
			c.Layers[i].BlobManifests = append(c.Layers[i].BlobManifests, image.BlobManifest{Digest: d.Digest, Size: d.Size})
			rest = rest[n:]
		}
	}
	if mediaType == image.MediaTypeSplitConfig {
		d, empty := image.EmptyConfig()
		if _, err := s.putBytes(ctx, d.MediaType, empty); err != nil {
			return "", err
		}
	}
	return mediaType, nil
}

// WriteTop returns the descriptor that the names of an image shall have: that of
// its manifest or, for several platforms and for one with blob manifests, that of
// an index, which it writes with annotations. manifests are of WriteImage, one for
// each platform.
func (s *Store) WriteTop(ctx context.Context, manifests []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	all := slices.Clone(manifests)
	for _, d := range manifests {
		more, err := s.blobManifests(ctx, d)
		if err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("write image index: %w", err)
		}
		for _, m := range more {
			if !slices.ContainsFunc(all, func(d ocispec.Descriptor) bool { return d.Digest == m.Digest }) {
				all = append(all, m)
			}
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return s.WriteIndex(ctx, all, annotations)
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

// imageSize returns the bytes of all blobs of an image, each counted once.
func imageSize(img *Image) int64 {
	seen := map[digest.Digest]bool{}
	var n int64
	for _, d := range img.Descriptors() {
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
