package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/layer"
)

// LayerOptions are the options of WriteLayer.
type LayerOptions struct {
	// Compression of the blob; "" is layer.CompressionZstd. Equal tars and equal
	// options give equal blobs, on any number of processors.
	Compression string
	// Like is a hint: a similar layer, typically the last result of the same
	// step. Equal 4 MiB pieces are reused compressed, equal files as hard links.
	// It must come from the same version of sealer; a layer that is gone is
	// ignored, and so is the zero Layer.
	Like image.Layer
}

// WriteLayer makes a rootfs layer of the uncompressed tar that write writes, as
// layer.Write has it: blob and directory appear together. The error wraps
// ErrInvalid for a tar that tries to leave its layer, and write's error when that
// failed.
func (s *Store) WriteLayer(ctx context.Context, o LayerOptions, write func(w io.Writer) error) (_ image.Layer, err error) {
	if _, err := s.begin(ctx); err != nil {
		return image.Layer{}, err
	}
	dir, err := s.tempDir("layer")
	if err != nil {
		return image.Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	blob, err := s.tempFile(ctx, "layer")
	if err != nil {
		return image.Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer func() { err = errors.Join(err, discard(blob)) }()

	writing := layer.Options{Compression: o.Compression, Devices: s.o.Devices, Limits: s.o.Limits.Layer}
	writing.WriteBack = func() {
		if err := s.syncFS(blob); err != nil {
			s.failed(nil) // Commit mends
		}
	}
	if len(o.Like.Descriptors) == 1 {
		writing.Like = s.LayerDir(o.Like.ID)
		writing.LikeBlob = s.likeBlob(o)
	}
	done, err := layer.Write(ctx, dir.Name(), blob, writing, write)
	if err != nil {
		return image.Layer{}, fmt.Errorf("write layer: %w", err)
	}
	if err := s.publishBlob(ctx, blob, done.Blob.Digest); err != nil {
		return image.Layer{}, err
	}
	if err := s.publishDir(ctx, dir.Name(), done.ID); err != nil {
		return image.Layer{}, err
	}
	return image.Layer{ID: done.ID, Descriptors: []ocispec.Descriptor{done.Blob}, Size: done.Size}, nil
}

// likeBlob opens the blob whose compressed pieces may be reused; nil when the
// layer is gone, or when either layer is not compressed with zstd.
func (s *Store) likeBlob(o LayerOptions) *os.File {
	desc := o.Like.Descriptors[0]
	if cmp.Or(o.Compression, layer.CompressionZstd) != layer.CompressionZstd || desc.MediaType != ocispec.MediaTypeImageLayerZstd {
		return nil
	}
	f, err := os.Open(s.BlobPath(desc.Digest))
	if err != nil {
		return nil
	}
	return f
}

// unpackBlob unpacks the rootfs layer l from its blob unless it is there.
// l.Size, when it is not zero, is the sum of its files' sizes.
func (s *Store) unpackBlob(ctx context.Context, l image.Layer) (err error) {
	if s.hasLayer(l.ID) {
		return nil
	}
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	dir, err := s.tempDir("layer")
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	if err := s.unpack(ctx, &s.reader, l, dir.Name()); err != nil {
		return err
	}
	return s.publishDir(ctx, dir.Name(), l.ID)
}

// unpack unpacks the rootfs layer l, whose blob r has, into dir, an empty
// directory, and compares it with the ID and size that it should have.
func (s *Store) unpack(ctx context.Context, r *reader, l image.Layer, dir string) error {
	if err := s.fits(l.Size); err != nil { // else the disk is full before the error comes
		return fmt.Errorf("unpack layer %s: %w", l.ID, err)
	}
	desc := l.Descriptors[0]
	f, err := r.OpenBlob(ctx, desc.Digest)
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer f.Close()
	got, err := layer.Read(ctx, dir, f, desc.Size, layer.Options{Devices: s.o.Devices, Limit: l.Size, Limits: s.o.Limits.Layer})
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	if got.ID != l.ID {
		return fmt.Errorf("layer %s: %w: the digest of its tar is %s", l.ID, ErrMismatch, got.ID)
	}
	s.mu.Lock()
	s.sizes[l.ID] = got.Size
	s.mu.Unlock()
	return sameSize(l, got.Size)
}

// hasLayer reports whether the layer is unpacked: a layer's directory appears
// when it is whole.
func (s *Store) hasLayer(id digest.Digest) bool {
	fi, err := os.Stat(s.LayerDir(id))
	return err == nil && fi.IsDir()
}

// publishDir renames the temporary directory to the layer id. One that another
// process was faster with is as good.
func (s *Store) publishDir(ctx context.Context, dir string, id digest.Digest) error {
	if err := settleDir(dir); err != nil {
		return fmt.Errorf("layer %s: %w", id, err)
	}
	if err := s.note(ctx, id); err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil { // also where another process was faster
		return fmt.Errorf("layer %s: %w", id, err)
	}
	if err := s.publish(ctx, dir, s.LayerDir(id)); err != nil && !s.hasLayer(id) {
		return fmt.Errorf("layer %s: %w", id, err)
	}
	return nil
}
