package layer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var (
	// ErrInvalid is wrapped by errors about a tar or a blob that breaks the
	// format, or whose names lead out of the layer.
	ErrInvalid = errors.New("invalid content")
	// ErrMismatch is wrapped by errors about content that is not the announced
	// one: another digest, too short, too long.
	ErrMismatch = errors.New("content does not match its descriptor")
	// ErrLimit is wrapped, beside ErrInvalid, by errors about content that exceeds
	// one of Limits.
	ErrLimit = errors.New("beyond a limit")
)

// The compressions of a layer's blob.
const (
	CompressionZstd = "zstd" // the default
	CompressionGzip = "gzip"
	CompressionNone = "none"
)

// Options are the options of Write and Read.
type Options struct {
	// Compression of the blob; "" is CompressionZstd. Read finds it out.
	Compression string
	// Devices lets the layer hold device nodes and fifos, which only root can
	// unpack. Otherwise such a layer is refused.
	Devices bool
	// Limit is the most bytes that the layer's files may have together; 0 is no
	// limit.
	Limit int64
	// Limits bound a tar that is not trusted.
	Limits Limits
	// Like is the directory of a layer that may have equal files: each becomes a
	// hard link. "" is none.
	Like string
	// LikeBlob is the zstd blob of such a layer, whose equal pieces are taken
	// compressed. Equal tars give equal blobs only if the same version of this
	// package wrote it. Write closes it; nil is none.
	LikeBlob *os.File
	// WriteBack is called every 64 MiB of the blob, to let the disk begin; nil
	// does nothing. It runs beside the writing.
	WriteBack func()
}

// A Result describes a layer.
type Result struct {
	ID   digest.Digest // of the uncompressed tar
	Size int64         // bytes of the unpacked files
	// Blob describes the blob that Write wrote, without annotations. Of Read it
	// is zero.
	Blob ocispec.Descriptor
}

// Write makes a layer of the uncompressed tar that write writes. In one pass the
// tar is hashed, compressed into blob and unpacked into dir, an empty directory.
// Equal tars and equal options give equal blobs, on any number of processors.
//
// Directories need not be listed before their files. write's writer has
// AvailableBuffer, as bufio.Writer has: bytes written out of that are not
// copied. The error wraps ErrInvalid for a tar that breaks the format or tries
// to leave its layer, and write's error when that failed.
func Write(ctx context.Context, dir string, blob *os.File, o Options, write func(w io.Writer) error) (Result, error) {
	var old *frames
	if o.LikeBlob != nil {
		var err error
		if old, err = openFrames(o.LikeBlob); err != nil {
			return Result{}, errors.Join(err, o.LikeBlob.Close())
		}
		defer old.close()
	}
	c, err := newCompressor(o.Compression)
	if err != nil {
		return Result{}, err
	}
	p := newPipeline(c, blob, func(ctx context.Context, r io.Reader) (int64, error) {
		return unpack(ctx, dir, r, o.unpacking())
	})
	p.old = old
	if p.writeBack = o.WriteBack; p.writeBack == nil {
		p.writeBack = func() {}
	}
	done, err := p.run(ctx, write)
	return Result{
		ID:   done.id,
		Size: done.size,
		Blob: ocispec.Descriptor{MediaType: c.mediaType, Digest: done.blob, Size: done.blobSize},
	}, err
}

// Read unpacks the blob r of size bytes into dir, an empty directory. The caller
// compares the result with the ID that it expects. A blob that exceeds o.Limits is
// refused: the error wraps ErrInvalid and ErrLimit.
func Read(ctx context.Context, dir string, r io.Reader, size int64, o Options) (Result, error) {
	d, err := Decompress(r)
	if err != nil {
		return Result{}, err
	}
	defer d.Close()
	h := sha256.New()
	most := cmp.Or(o.Limits.Unpacked, MaxContent(size)+o.Limit)
	tar := &limitedReader{r: io.TeeReader(d, h), left: most}
	var out Result
	bounds := o.unpacking()
	if most < bounds.limit { // the holes of a sparse file are no bytes of the tar
		bounds.limit, bounds.guessed = most, true
	}
	bounds.entries = cmp.Or(o.Limits.Entries, maxEntriesOf(size))
	out.Size, err = unpack(ctx, dir, tar, bounds)
	if err == nil {
		_, err = io.Copy(io.Discard, tar) // the digest covers the bytes after the archive's end, too
	}
	out.ID = digest.NewDigest(digest.SHA256, h)
	return out, err
}

func (o Options) unpacking() unpackOptions {
	return unpackOptions{devices: o.Devices, limit: cmp.Or(max(o.Limit, 0), math.MaxInt64), entries: o.Limits.Entries, names: o.Limits.Names, like: o.Like}
}

// MaxContent is the most bytes that an archive of compressed bytes may unpack to:
// no honest one is compressed further.
func MaxContent(compressed int64) int64 { return max(1<<30, 200*compressed) }

// A limitedReader fails when there is more, where io.LimitReader ends.
type limitedReader struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, fmt.Errorf("%w: %w: it unpacks to far more than its size allows", ErrInvalid, ErrLimit)
	}
	return n, err
}
