package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

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
	// Like is a layer that is probably much alike, such as the one that the same
	// step made before a file changed; the zero Layer is none. What is equal is
	// taken from it: the compressed pieces of its blob, which must be of the same
	// program for equal tars to give equal blobs, and its files, as hard links.
	// It need not be there any more.
	Like Layer
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

// isRegistry reports whether l is a registry layer.
func (l Layer) isRegistry() bool {
	return len(l.Descriptors) > 0 && l.Descriptors[0].MediaType == tree.MediaTypeDocument
}

// WriteLayer makes a rootfs layer of the uncompressed tar that write writes:
// in one pass it is hashed, compressed into a blob and unpacked, and both
// appear together. Directories need not be listed before their files.
// Deletions are written as ".wh." files (see the package's documentation).
// The writer has AvailableBuffer, as bufio.Writer has: what is written out of
// that is not copied.
// The error wraps ErrInvalid for a tar that tries to leave its layer, and
// write's error when that failed.
func (s *Store) WriteLayer(ctx context.Context, o LayerOptions, write func(w io.Writer) error) (_ Layer, err error) {
	c, err := newCompressor(o.Compression)
	if err != nil {
		return Layer{}, err
	}
	if _, err := s.begin(ctx); err != nil {
		return Layer{}, err
	}
	dir, err := s.tempDir("layer")
	if err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	blob, err := s.tempFile(ctx, "layer")
	if err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer func() { err = errors.Join(err, discard(blob)) }()

	unpacking := s.unpackOptions(unlimited)
	if len(o.Like.Descriptors) == 1 {
		unpacking.like = s.LayerDir(o.Like.ID)
	}
	p := newPipeline(c, blob, func(ctx context.Context, r io.Reader) (int64, error) {
		return unpack(ctx, dir.Name(), r, unpacking)
	})
	if p.old, err = s.framesOf(o.Like, c.mediaType); err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	defer p.old.close()
	done, err := p.run(ctx, write)
	if err != nil {
		return Layer{}, fmt.Errorf("write layer: %w", err)
	}
	if err := s.publishBlob(ctx, blob, done.blob); err != nil {
		return Layer{}, err
	}
	if err := s.publishDir(ctx, dir, done.id); err != nil {
		return Layer{}, err
	}
	return Layer{
		ID:          done.id,
		Descriptors: []ocispec.Descriptor{{MediaType: c.mediaType, Digest: done.blob, Size: done.blobSize}},
		Size:        done.size,
	}, nil
}

// framesOf opens the frames of the blob of like, nil when it has none.
func (s *Store) framesOf(like Layer, mediaType string) (*frames, error) {
	if mediaType != ocispec.MediaTypeImageLayerZstd || len(like.Descriptors) != 1 || like.Descriptors[0].MediaType != mediaType {
		return nil, nil
	}
	f, err := os.Open(s.BlobPath(like.Descriptors[0].Digest))
	if err != nil {
		return nil, nil
	}
	return openFrames(f)
}

// unpackBlob unpacks the rootfs layer l from its blob unless it is there.
// l.Size, when it is not zero, is what its files must have together.
func (s *Store) unpackBlob(ctx context.Context, l Layer) (err error) {
	if s.hasLayer(l.ID) {
		return nil
	}
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	desc := l.Descriptors[0]
	f, err := s.OpenBlob(ctx, desc.Digest)
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer f.Close()
	r, err := Decompress(f)
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer r.Close()
	dir, err := s.tempDir("layer")
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	defer func() { err = errors.Join(err, discard(dir)) }()
	h := sha256.New()
	// What the tar may hold is bounded twice: its files by what the config
	// says, and all of it by what an honest compression can make of the blob.
	tar := &limitedReader{r: io.TeeReader(r, h), left: max(1<<30, 200*desc.Size) + l.Size}
	size, err := unpack(ctx, dir.Name(), tar, s.unpackOptions(l.Size))
	if err == nil {
		_, err = io.Copy(io.Discard, tar) // what follows the end of the archive counts for the digest
	}
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	if got := digest.NewDigestFromBytes(digest.SHA256, h.Sum(nil)); got != l.ID {
		return fmt.Errorf("layer %s: %w: the digest of its tar is %s", l.ID, ErrMismatch, got)
	}
	if l.Size > 0 && size != l.Size {
		return fmt.Errorf("layer %s: %w: its files have %d bytes, want %d", l.ID, ErrMismatch, size, l.Size)
	}
	return s.publishDir(ctx, dir, l.ID)
}

// hasLayer reports whether the layer is unpacked: a layer's directory appears
// when it is whole.
func (s *Store) hasLayer(id digest.Digest) bool {
	fi, err := os.Stat(s.LayerDir(id))
	return err == nil && fi.IsDir()
}

// publishDir renames the temporary directory to the layer id. One that another
// process was faster with is as good.
func (s *Store) publishDir(ctx context.Context, dir *os.File, id digest.Digest) error {
	if err := s.note(ctx, id); err != nil {
		return err
	}
	if err := s.publish(ctx, dir.Name(), s.LayerDir(id)); err != nil && !s.hasLayer(id) {
		return fmt.Errorf("layer %s: %w", id, err)
	}
	return nil
}

func (s *Store) unpackOptions(limit int64) unpackOptions {
	if limit <= 0 {
		limit = unlimited
	}
	return unpackOptions{devices: s.o.Devices, limit: limit}
}

// A limitedReader fails, other than io.LimitReader, when there is more.
type limitedReader struct {
	r    io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w: it unpacks to far more than its size allows", ErrInvalid)
	}
	return n, err
}
