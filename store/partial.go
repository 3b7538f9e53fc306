package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

const (
	// resumeAbove is the size up to which a blob that breaks off is written again
	// from its first byte.
	resumeAbove = 8 << 20

	// partialLife is how long after its last byte the beginning of a blob is kept.
	partialLife = 7 * 24 * time.Hour

	partialPrefix = "partial-"
)

// partialPath returns the file with the first bytes of the blob d. Its name tells
// nothing about the registry that sent them: the digest says which bytes are
// right, so another registry may send the rest.
func (s *Store) partialPath(d digest.Digest) string {
	return s.path("tmp", partialPrefix+encoded(d))
}

// partialSize returns the number of bytes of d that an earlier run has left.
func (s *Store) partialSize(d digest.Digest) int64 {
	fi, err := os.Lstat(s.partialPath(d))
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	return fi.Size()
}

// A partialWriter writes a blob that can be gone on with, even by another process
// after this one was killed. It implements remote.Resumer. Until Resume is called
// it is an ordinary blobWriter.
type partialWriter struct {
	*blobWriter
	ctx     context.Context
	s       *Store
	d       digest.Digest
	partial *os.File // locked; nil until Resume
	resumed int64    // bytes of earlier runs
}

// Resume returns the number of bytes that earlier runs have left; the next Write
// must go on there. From now on the bytes stay for another run if this one breaks
// off.
func (w *partialWriter) Resume() (int64, error) {
	if w.partial != nil {
		return w.n, nil
	}
	if w.limit <= resumeAbove || w.n > 0 {
		return w.n, nil
	}
	f, err := w.s.openPartial(w.ctx, w.d)
	if err != nil {
		return 0, err
	}
	w.partial, w.f = f, f
	if err := w.rehash(); err != nil {
		return 0, w.Restart()
	}
	if w.resumed = w.n; w.resumed > 0 {
		w.s.o.Logger.Info("going on with a blob that broke off", "digest", w.d, "at", w.resumed, "of", w.limit)
	}
	return w.resumed, nil
}

// rehash reads the partial, so that the digest is that of the whole blob.
func (w *partialWriter) rehash() error {
	h := newBlobWriter(io.Discard, w.limit)
	h.h = w.h
	_, err := h.ReadFrom(w.partial)
	w.n = h.n
	return err // it may be longer than the blob
}

// Restart drops all bytes: the next Write is the blob's first byte.
func (w *partialWriter) Restart() error {
	if w.resumed > 0 {
		w.s.o.Logger.Info("beginning a blob anew", "digest", w.d, "dropped", w.resumed)
	}
	w.h.Reset()
	w.n, w.resumed, w.err = 0, 0, nil
	file, ok := w.f.(*os.File)
	if !ok {
		return nil
	}
	if err := empty(file); err != nil {
		return fmt.Errorf("begin blob %s anew: %w", w.d, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("begin blob %s anew: %w", w.d, err)
	}
	return nil
}

// openPartial opens and locks the partial of d. The caller holds the temporary of
// d, so only prune may have it for a moment.
func (s *Store) openPartial(ctx context.Context, d digest.Digest) (*os.File, error) {
	path := s.partialPath(d)
	for {
		if fi, err := os.Lstat(path); err == nil && !fi.Mode().IsRegular() {
			return nil, fmt.Errorf("%s: %w: it is no file", path, ErrInvalid)
		}
		f, err := openTemp(path)
		if err != nil {
			return nil, err
		}
		if err := waitFlock(ctx, f, true); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if same(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// close ends the partial. It is removed unless keep is set and it has bytes.
func (w *partialWriter) close(keep bool) error {
	if w.partial == nil {
		return nil
	}
	var err error
	if !keep || w.n == 0 {
		if err = os.Remove(w.partial.Name()); errors.Is(err, fs.ErrNotExist) {
			err = nil // it was published
		}
	}
	return errors.Join(err, w.partial.Close())
}

// keptPartial reports whether sweep leaves the file alone: the beginning of a
// blob that is not too old.
func keptPartial(fi fs.FileInfo) bool {
	return strings.HasPrefix(fi.Name(), partialPrefix) && time.Since(fi.ModTime()) < partialLife
}
