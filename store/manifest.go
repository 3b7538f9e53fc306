package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
)

const (
	// maxManifest bounds manifests and indexes: a registry accepts 4
	// MiB, which is 25,000 blobs.
	maxManifest = 16 << 20
	// maxConfig bounds configs.
	maxConfig = 64 << 20
	// maxDocument bounds registry layer documents. One blob takes about 110 bytes
	// of a document, more when it is a manifest, and more yet of the image's
	// manifest: maxManifest is reached first.
	maxDocument = 32 << 20
)

// errLongDocument is the error for a document that is longer than maxDocument.
var errLongDocument = fmt.Errorf("%w: a registry layer document of more than %d bytes", ErrInvalid, maxDocument)

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
		for _, d := range l.Descriptors {
			d.Annotations = map[string]string{image.AnnotationLayerType: c.Layers[i].Type, image.AnnotationLayerValue: c.Layers[i].Value}
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
	desc, err := s.putBytes(ctx, m.MediaType, b)
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("write manifest: %w", err)
	}
	desc.ArtifactType = image.ArtifactType
	desc.Platform = &c.Platform
	return desc, nil
}

// WriteIndex writes an image index of the manifests that WriteImage returned,
// one for each platform, in their order.
func (s *Store) WriteIndex(ctx context.Context, manifests []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	idx := newIndex()
	idx.ArtifactType = image.ArtifactType
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
	desc.ArtifactType = image.ArtifactType
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
// index, with the index. Of an index only the entries that the store has and that are a
// platform's: attestations are not.
func (s *Store) manifests(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, *ocispec.Index, error) {
	switch {
	case platform.IsManifest(desc.MediaType):
		desc.Annotations = nil // index.json's
		return []ocispec.Descriptor{desc}, nil, nil
	case !platform.IsIndex(desc.MediaType):
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
		if !platform.IsManifest(m.MediaType) || m.Platform == nil || m.Platform.OS == "unknown" {
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

// accept refuses the manifest desc when it is no ClusterImage's; see
// image.Accept.
func (s *Store) accept(ctx context.Context, desc ocispec.Descriptor) error {
	var m ocispec.Manifest
	if err := s.readJSON(ctx, desc, maxManifest, &m); err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	err := image.Accept(&m, func() ([]byte, error) { return s.ReadBlob(ctx, m.Config.Digest, maxConfig) })
	if errors.Is(err, image.ErrForeign) {
		return fmt.Errorf("manifest %s: %w: %w", desc.Digest, ErrInvalid, err)
	}
	return err
}

// readImage reads the image whose manifest is desc: all but the names that index.json
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
	case image.MediaTypeConfig:
		if err := s.readJSON(ctx, m.Config, maxConfig, &img.Config); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	case ocispec.MediaTypeImageConfig, platform.MediaTypeDockerConfig:
		img.Plain = true
		var c ocispec.Image
		if err := s.readJSON(ctx, m.Config, maxConfig, &c); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
		var err error
		if img.Config, err = image.FromPlain(m, &c); err != nil {
			return nil, fmt.Errorf("manifest %s: %w: %w", desc.Digest, ErrInvalid, err)
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
		l := image.Layer{ID: c.ID, Descriptors: rest[:1:1], Size: c.Size}
		if l.IsRegistry() {
			doc, err := s.readDocument(ctx, rest[0])
			if err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
			want := image.RegistryLayer(rest[0], doc)
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
	if desc.Size > maxDocument {
		return nil, errLongDocument
	}
	b, err := s.ReadBlob(ctx, desc.Digest, maxDocument)
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
func platformOf(desc ocispec.Descriptor, c image.Config) ocispec.Platform {
	if desc.Platform != nil {
		return platform.Normalize(*desc.Platform)
	}
	return platform.Normalize(c.Platform)
}
