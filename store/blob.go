package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"syscall"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
)

// unlimited is a limit that nothing reaches.
const unlimited = math.MaxInt64

// PutBlob makes the store have the blob desc. When it lacks it, write is called
// to write the content: of all that want one blob at a time, in this process and
// in others, one writes it and the rest wait. write is given a writer that
// implements io.ReaderFrom, so io.Copy needs no buffer; it takes not a byte more
// than desc.Size.
//
// The writer implements remote.Resumer too. If write asks it for the bytes of an
// earlier run, a blob of more than 8 MiB that breaks off, even by a kill of this
// process, is gone on with by the next PutBlob. The bytes are then hashed again;
// write is called a second time, from the first byte, if the whole has a wrong
// digest.
//
// The content is hashed while it is written. Where it differs from desc, the
// error wraps ErrMismatch, and where write or the disk fails their error is
// wrapped; the images are then as they were before. After PutBlob the blob is whole
// to every process, and survives a crash of this one; a power failure too, once
// Commit returned.
func (s *Store) PutBlob(ctx context.Context, desc ocispec.Descriptor, write func(w io.Writer) error) error {
	if err := checkDigest(desc.Digest); err != nil {
		return err
	}
	return s.putBlob(ctx, desc, func() bool { return s.hasSized(desc) }, write)
}

// putBytes puts a blob that is in memory.
func (s *Store) putBytes(ctx context.Context, mediaType string, b []byte) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	return desc, s.PutBlob(ctx, desc, func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(b))
		return err
	})
}

func (s *Store) putBlob(ctx context.Context, desc ocispec.Descriptor, has func() bool, write func(w io.Writer) error) error {
	for !has() {
		s.mu.Lock()
		finished, busy := s.inflight[desc.Digest]
		if !busy {
			finished = make(chan struct{})
			s.inflight[desc.Digest] = finished
		}
		s.mu.Unlock()
		if busy {
			select {
			case <-finished: // if the blob is still missing, that writer failed: try here
				continue
			case <-ctx.Done():
				return fmt.Errorf("wait for blob %s: %w", desc.Digest, context.Cause(ctx))
			}
		}
		err := s.writeBlobAlone(ctx, desc, has, write)
		s.mu.Lock()
		delete(s.inflight, desc.Digest)
		s.mu.Unlock()
		close(finished)
		return err
	}
	return nil
}

// writeBlobAlone writes the blob while no other goroutine of this Store does.
func (s *Store) writeBlobAlone(ctx context.Context, desc ocispec.Descriptor, has func() bool, write func(w io.Writer) error) (err error) {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.fits(desc.Size - s.partialSize(desc.Digest)); err != nil {
		return fmt.Errorf("write blob %s: %w", desc.Digest, err)
	}
	// The temporary's name is the digest's, so its lock keeps other processes
	// from fetching the same blob.
	f, err := s.claim(ctx, "blob-"+desc.Digest.Encoded(), has)
	if err != nil || f == nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		err = errors.Join(err, f.Close())
	}()
	w := &partialWriter{blobWriter: newBlobWriter(f, desc.Size), ctx: ctx, s: s, d: desc.Digest}
	defer func() {
		// Wrong content and a full disk gain nothing from the bytes there are.
		err = errors.Join(err, w.close(err != nil && w.err == nil && !errors.Is(err, ErrMismatch)))
	}()
	err = w.fill(desc, write)
	if errors.Is(err, ErrMismatch) && w.resumed > 0 {
		if err = w.Restart(); err == nil {
			err = w.fill(desc, write)
		}
	}
	if err != nil {
		return err
	}
	if w.partial == nil {
		return s.publishBlob(ctx, f, desc.Digest)
	}
	if err := s.publishBlob(ctx, w.partial, desc.Digest); err != nil {
		return err
	}
	return os.Remove(f.Name())
}

// fill calls write and checks the content.
func (w *partialWriter) fill(desc ocispec.Descriptor, write func(w io.Writer) error) error {
	if err := write(w); err != nil {
		return cmpDisk(w.err, fmt.Errorf("write blob %s: %w", desc.Digest, err))
	}
	if w.n != desc.Size {
		return fmt.Errorf("write blob %s: %w: %d bytes, want %d", desc.Digest, ErrMismatch, w.n, desc.Size)
	}
	if got := w.digest(); got != desc.Digest {
		return fmt.Errorf("write blob %s: %w: its digest is %s", desc.Digest, ErrMismatch, got)
	}
	return nil
}

// fits refuses content of more bytes than the store's disk has free.
func (s *Store) fits(bytes int64) error {
	if free, err := freeSpace(s.root); err == nil && free < bytes {
		return fmt.Errorf("%d bytes to %s: %d bytes free: %w", bytes, s.root, free, syscall.ENOSPC)
	}
	return nil
}

// cmpDisk prefers the disk's error over one that write made of it.
func cmpDisk(disk, err error) error {
	if disk != nil && !errors.Is(err, disk) {
		return fmt.Errorf("%w: %w", err, disk)
	}
	return err
}

// publishBlob renames the temporary f to the blob d.
func (s *Store) publishBlob(ctx context.Context, f *os.File, d digest.Digest) error {
	if err := errors.Join(settleFile(f), f.Chmod(0o444)); err != nil {
		return fmt.Errorf("write blob %s: %w", d, err)
	}
	if err := s.publish(ctx, f.Name(), s.BlobPath(d)); err != nil {
		return fmt.Errorf("write blob %s: %w", d, err)
	}
	return nil
}

// A blobWriter hashes the bytes it writes, in one pass, and refuses bytes beyond
// limit.
type blobWriter struct {
	f     io.Writer
	h     hash.Hash
	n     int64
	limit int64
	err   error // of the file, or ErrMismatch; sticky
}

func newBlobWriter(f io.Writer, limit int64) *blobWriter {
	return &blobWriter{f: f, h: sha256.New(), limit: limit}
}

// Write implements io.Writer.
func (w *blobWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	if int64(len(p)) > w.limit-w.n {
		w.err = fmt.Errorf("%w: longer than %d bytes", ErrMismatch, w.limit)
		return 0, w.err
	}
	n, err := w.f.Write(p)
	w.h.Write(p[:n])
	w.n += int64(n)
	w.err = err
	return n, err
}

// ReadFrom implements io.ReaderFrom with a pooled buffer, filled before it is
// written: a socket gives far less than that at a time.
func (w *blobWriter) ReadFrom(r io.Reader) (int64, error) {
	buf := layer.NewBuffer()
	defer buf.Free()
	var total int64
	for {
		n, err := layer.Fill(r, buf[:])
		m, werr := w.Write(buf[:n])
		total += int64(m)
		if werr != nil {
			return total, werr
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

func (w *blobWriter) digest() digest.Digest {
	return digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(w.h.Sum(nil)))
}

// checkBlob reads the blob d and compares its digest.
func (s *Store) checkBlob(d digest.Digest) error {
	f, err := s.OpenBlob(context.Background(), d)
	if err != nil {
		return err
	}
	defer f.Close()
	w := newBlobWriter(io.Discard, unlimited)
	if _, err := w.ReadFrom(f); err != nil {
		return fmt.Errorf("read blob %s: %w", d, err)
	}
	if got := w.digest(); got != d {
		return fmt.Errorf("blob %s: %w: its digest is %s", d, ErrMismatch, got)
	}
	return nil
}
