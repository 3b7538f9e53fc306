package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
)

const (
	// Docker's names for what OCI calls manifest, index and config.
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerIndex    = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"

	// maxManifest bounds manifests and indexes: what a registry accepts is 4
	// MiB, which is 25,000 blobs.
	maxManifest = 16 << 20
	// maxConfig bounds configs and registry layer documents.
	maxConfig = 64 << 20
)

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerIndex
}

func isManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == dockerManifest
}

// WriteImage writes the config and the manifest of a ClusterImage whose layers,
// lowest first, are those of a base's Image and those that WriteLayer and
// WriteRegistryLayer returned. c.Layers has an entry for each: its Type and
// Value become annotations of the layer's descriptors; its ID and Size are set
// from the layer. Nothing is visible before Commit.
func (s *Store) WriteImage(ctx context.Context, c Config, layers []Layer, annotations map[string]string) (ocispec.Descriptor, error) {
	if len(c.Layers) != len(layers) {
		return ocispec.Descriptor{}, fmt.Errorf("write image: %w: the config has %d layers, not %d", ErrInvalid, len(c.Layers), len(layers))
	}
	c.Layers = slices.Clone(c.Layers)
	m := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: ArtifactType,
		Layers:       []ocispec.Descriptor{},
		Annotations:  annotations,
	}
	for i, l := range layers {
		c.Layers[i].ID, c.Layers[i].Size = l.ID, l.Size
		for _, d := range l.Descriptors {
			d.Annotations = map[string]string{AnnotationLayerType: c.Layers[i].Type, AnnotationLayerValue: c.Layers[i].Value}
			m.Layers = append(m.Layers, d)
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	if m.Config, err = s.putBytes(ctx, MediaTypeConfig, b); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write config: %w", err)
	}
	if b, err = json.Marshal(m); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	desc, err := s.putBytes(ctx, m.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	desc.ArtifactType = ArtifactType
	desc.Platform = &c.Platform
	return desc, nil
}

// WriteIndex writes an image index of the manifests that WriteImage returned,
// one for each platform, in their order.
func (s *Store) WriteIndex(ctx context.Context, manifests []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	idx := newIndex()
	idx.ArtifactType = ArtifactType
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
	desc.ArtifactType = ArtifactType
	return desc, nil
}

// readJSON reads the small blob desc into v, checking size and digest.
func (s *Store) readJSON(ctx context.Context, desc ocispec.Descriptor, limit int64, v any) error {
	b, err := s.ReadBlob(ctx, desc.Digest, limit)
	if err != nil {
		return err
	}
	if int64(len(b)) != desc.Size {
		return fmt.Errorf("blob %s: %w: %d bytes, want %d", desc.Digest, ErrMismatch, len(b), desc.Size)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("blob %s: %w: %w", desc.Digest, ErrInvalid, err)
	}
	return nil
}

// manifests returns the manifests that desc stands for, itself or those of the
// index, with the index. Of an index only what the store has and what is a
// platform's: attestations are not.
func (s *Store) manifests(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, *ocispec.Index, error) {
	switch {
	case isManifest(desc.MediaType):
		desc.Annotations = nil // index.json's
		return []ocispec.Descriptor{desc}, nil, nil
	case !isIndex(desc.MediaType):
		return nil, nil, fmt.Errorf("%w: %s is a %q, not a manifest or an image index", ErrInvalid, desc.Digest, desc.MediaType)
	}
	var idx ocispec.Index
	if err := s.readJSON(ctx, desc, maxManifest, &idx); err != nil {
		return nil, nil, fmt.Errorf("image index: %w", err)
	}
	var out []ocispec.Descriptor
	for _, m := range idx.Manifests {
		if err := checkDigest(m.Digest); err != nil {
			return nil, nil, fmt.Errorf("image index %s: %w", desc.Digest, err)
		}
		if !isManifest(m.MediaType) || m.Platform == nil || m.Platform.OS == "unknown" {
			continue
		}
		if has, err := s.HasBlob(ctx, m.Digest); err != nil {
			return nil, nil, err
		} else if has {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("image index %s: no manifest of it: %w", desc.Digest, ErrNotFound)
	}
	return out, &idx, nil
}

// readImage reads the image whose manifest is desc: all but what index.json
// says of it.
func (s *Store) readImage(ctx context.Context, desc ocispec.Descriptor) (*Image, error) {
	img := &Image{ManifestDescriptor: desc}
	if err := s.readJSON(ctx, desc, maxManifest, &img.Manifest); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := &img.Manifest
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if err := checkDigest(d.Digest); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
	}
	switch m.Config.MediaType {
	case MediaTypeConfig:
		if err := s.readJSON(ctx, m.Config, maxConfig, &img.Config); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	case ocispec.MediaTypeImageConfig, dockerConfig:
		img.Plain = true
		var c ocispec.Image
		if err := s.readJSON(ctx, m.Config, maxConfig, &c); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		var err error
		if img.Config, err = plainConfig(m, &c); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
	default:
		return nil, fmt.Errorf("manifest %s: %w: it is no ClusterImage: its config is a %q", desc.Digest, ErrInvalid, m.Config.MediaType)
	}
	if err := s.readLayers(ctx, img); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	img.Size = imageSize(desc, m)
	return img, nil
}

// readLayers fills in Layers and Documents.
func (s *Store) readLayers(ctx context.Context, img *Image) error {
	rest := img.Manifest.Layers
	for i := range img.Config.Layers {
		c := &img.Config.Layers[i]
		if err := checkDigest(c.ID); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if len(rest) == 0 {
			return fmt.Errorf("%w: the config has %d layers, the manifest %d", ErrInvalid, len(img.Config.Layers), i)
		}
		l := Layer{ID: c.ID, Descriptors: rest[:1:1], Size: c.Size}
		if l.isRegistry() {
			doc, err := s.readDocument(ctx, rest[0])
			if err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
			want := registryLayer(rest[0], doc)
			n := len(want.Descriptors)
			same := func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest && a.Size == b.Size }
			if c.ID != want.ID || len(rest) < n || !slices.EqualFunc(rest[:n], want.Descriptors, same) {
				return fmt.Errorf("layer %d: %w: the manifest does not list what registry layer %s adds", i, ErrInvalid, want.ID)
			}
			l.Descriptors, l.Size = rest[:n:n], want.Size
			img.Documents = append(img.Documents, doc)
		}
		img.Layers = append(img.Layers, l)
		rest = rest[len(l.Descriptors):]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: the manifest has layers that the config lacks", ErrInvalid)
	}
	return nil
}

// readDocument reads a registry layer document.
func (s *Store) readDocument(ctx context.Context, desc ocispec.Descriptor) (*tree.Document, error) {
	b, err := s.ReadBlob(ctx, desc.Digest, maxConfig)
	if err != nil {
		return nil, err
	}
	return tree.Parse(b)
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
func platformOf(desc ocispec.Descriptor, c Config) ocispec.Platform {
	if desc.Platform != nil {
		return platform.Normalize(*desc.Platform)
	}
	return platform.Normalize(c.Platform)
}
