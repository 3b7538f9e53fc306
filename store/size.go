package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
)

// checkSizes compares the sizes that img's config gives its rootfs layers with
// those of layers that were there before, which nothing has compared: their
// files are counted. entry is the image's descriptor in the index; one that is
// there was compared when it came.
func (s *Store) checkSizes(ctx context.Context, entry ocispec.Descriptor, img *Image) error {
	idx, err := s.readIndex()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(idx.Manifests, func(d ocispec.Descriptor) bool { return d.Digest == entry.Digest }) {
		return nil
	}
	for _, l := range img.Layers {
		if l.IsRegistry() || l.Size == 0 {
			continue
		}
		if err := s.checkSize(ctx, l); err != nil {
			return fmt.Errorf("manifest %s: %w", img.ManifestDescriptor.Digest, err)
		}
	}
	return nil
}

func (s *Store) checkSize(ctx context.Context, l image.Layer) (err error) {
	if size, ok := s.size(l.ID); ok {
		return sameSize(l, size)
	}
	least, most, err := layer.Size(s.LayerDir(l.ID))
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	if least <= l.Size && l.Size <= most {
		return nil
	}
	// A tar with several files of one name has more bytes than its directory.
	dir, err := s.tempDir("layer")
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	return s.unpack(ctx, &s.reader, l, dir.Name())
}

// size returns the bytes of a layer that this Store has unpacked.
func (s *Store) size(id digest.Digest) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.sizes[id]
	return size, ok
}

func sameSize(l image.Layer, got int64) error {
	if l.Size > 0 && got != l.Size {
		return fmt.Errorf("layer %s: %w: its files have %d bytes, want %d", l.ID, ErrMismatch, got, l.Size)
	}
	return nil
}
