package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
)

// A failed flush loses data once and for all: Linux marks the pages that it could
// not write as clean, so that the next flush succeeds without writing them
// (Rebello and others, "Can Applications Recover from fsync Failures?", USENIX
// ATC 2020; PostgreSQL's fsync history of 2018). The page cache may still have
// the right content, and the disk another.
//
// So a failure is remembered: in the session, in its record, and in the records
// of the dead sessions that the flush was to make durable. As long as one record
// tells of a failure, no image is committed before mend has proved, or written
// again, everything that was published since the last good flush.

// failed remembers that a flush failed: in the session, if there is one, in its
// record and in the records dead.
func (s *Store) failed(dead []*os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.session; n != nil {
		n.failed, n.dirty = true, true
		dead = append(slices.Clip(dead), n.record)
	}
	for _, f := range dead {
		// The disk is failing: the line in memory, which processes of this boot
		// read, must be enough.
		if _, err := f.Seek(0, io.SeekEnd); err == nil {
			_, _ = f.WriteString(lineFailed + "\n")
		}
		_ = f.Sync()
	}
}

// suspects reports whether a record tells of a flush that failed and was not
// mended: f is this session's record, which counts by own.
func (s *Store) suspects(own bool) bool {
	if own {
		return true
	}
	for _, name := range s.records() {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		r, err := readRecord(f)
		_ = f.Close()
		if err == nil && (r.failed || r.flushing) {
			return true
		}
	}
	return false
}

// mend restores the content that a failed flush may have lost, and flushes again. Without
// a failed flush it does nothing. Layers that were published since the last good
// flush are dropped and unpacked again where an image needs them; blobs are read
// past the page cache and written again where the disk has another content.
//
// The error is the flush's, or says why the store could not be mended: nothing
// may be reported as durable then.
func (s *Store) mend(ctx context.Context) (err error) {
	s.mu.Lock()
	n := s.session
	own := n != nil && n.failed
	s.mu.Unlock()
	if !s.suspects(own) {
		return nil
	}
	lock, err := s.lock(ctx, "recover", true)
	if err != nil {
		return fmt.Errorf("mend a failed flush: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	dead := s.deadSessions()
	defer closeAll(dead)
	all, found := s.unflushed(dead)
	if !own && !found {
		return nil // another process was faster, or is still flushing
	}
	s.o.Logger.Warn("the disk failed to take what was written: it is read again, and written again where it differs", "store", s.root)
	if err := s.prove(ctx, all); err != nil {
		return fmt.Errorf("mend a failed flush: %w", err)
	}
	if n, err = s.begin(ctx); err != nil {
		return err
	}
	if err := s.flushBegins(n); err != nil {
		return err
	}
	if err := s.syncFS(lock); err != nil {
		s.failed(dead)
		return err
	}
	for _, f := range dead {
		if err := os.Remove(f.Name()); err != nil {
			return fmt.Errorf("mend a failed flush: %w", err)
		}
	}
	return s.flushEnded(n)
}

// unflushed returns the content that all sessions, dead and alive, published and did not
// flush. found tells that a flush of one of them failed. dead are the locked
// records; in a live session's, a flush that has only begun is no failure.
func (s *Store) unflushed(dead []*os.File) (all record, found bool) {
	isDead := map[string]bool{}
	for _, f := range dead {
		isDead[f.Name()] = true
	}
	for _, name := range s.records() {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		r, err := readRecord(f)
		_ = f.Close()
		if err != nil {
			continue
		}
		found = found || r.failed || r.flushing && isDead[name]
		all.layers = append(all.layers, r.layers...)
		if all.since.IsZero() || r.since.Before(all.since) {
			all.since = r.since
		}
	}
	return all, found
}

// prove makes sure that the disk, or else memory that is to be written, has
// everything that r says.
func (s *Store) prove(ctx context.Context, r record) error {
	if err := s.dropLayers(r.layers); err != nil {
		return err
	}
	err := s.eachBlobSince(r.since, func(d digest.Digest) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		return s.proveBlob(ctx, d)
	})
	if err != nil {
		return err
	}
	if err := s.writeIndexAgain(ctx); err != nil {
		return err
	}
	return s.unpackAgain(ctx)
}

// proveBlob makes sure that the blob d is on the disk as it should be. A
// blob that neither the disk nor the page cache has any more is removed.
func (s *Store) proveBlob(ctx context.Context, d digest.Digest) error {
	if f, err := s.openDirect(s.BlobPath(d)); err == nil {
		got, err := digestOf(f)
		if cerr := f.Close(); err == nil && cerr == nil && got == d {
			return nil
		}
	}
	err := s.writeBlobAgain(ctx, d)
	if errors.Is(err, ErrMismatch) || errors.Is(err, syscall.EIO) {
		s.o.Logger.Warn("drop a blob that the disk lost", "blob", d, "error", err)
		err = os.Remove(s.BlobPath(d))
	}
	return err
}

func digestOf(r io.Reader) (digest.Digest, error) {
	w := newBlobWriter(io.Discard, unlimited)
	_, err := w.ReadFrom(r)
	return w.digest(), err
}

// writeBlobAgain writes the blob d, as it is in the page cache, to a new file that
// takes its place, in the registry trees too.
func (s *Store) writeBlobAgain(ctx context.Context, d digest.Digest) (err error) {
	from, err := s.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := s.tempFile(ctx, "again")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(f)) }()
	w := newBlobWriter(f, unlimited)
	if _, err := w.ReadFrom(from); err != nil {
		return fmt.Errorf("write blob %s again: %w", d, err)
	}
	if got := w.digest(); got != d {
		return fmt.Errorf("write blob %s again: %w: its digest is %s", d, ErrMismatch, got)
	}
	if err := errors.Join(f.Chmod(0o444), os.Rename(f.Name(), s.BlobPath(d))); err != nil {
		return fmt.Errorf("write blob %s again: %w", d, err)
	}
	return s.relinkAll(d)
}

// writeIndexAgain replaces index.json and the layout file by themselves.
func (s *Store) writeIndexAgain(ctx context.Context) error {
	lock, err := s.lock(ctx, "index", true)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, name := range []string{ocispec.ImageIndexFile, ocispec.ImageLayoutFile} {
		path := s.path("image", name)
		content, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = s.writeFile(ctx, path, content)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dropLayers removes the layers ids, which are unpacked again from their blobs
// when they are wanted, and all copies for overlayfs.
func (s *Store) dropLayers(ids []digest.Digest) error {
	for _, id := range ids {
		if !s.hasLayer(id) {
			continue
		}
		s.o.Logger.Warn("drop a layer that was not flushed", "layer", id)
		if err := layer.Remove(s.LayerDir(id)); err != nil {
			return err
		}
	}
	for _, userxattr := range []bool{false, true} { // made anew when they are wanted
		if err := layer.Remove(s.path(overlayDir(userxattr))); err != nil {
			return err
		}
	}
	return nil
}

// clockMargin allows for a clock that was set back between two writes.
const clockMargin = 10 * time.Minute

// eachBlobSince calls f with every blob that was written after since.
func (s *Store) eachBlobSince(since time.Time, f func(d digest.Digest) error) error {
	entries, err := os.ReadDir(s.path("image/blobs/sha256"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || fi.ModTime().Before(since.Add(-clockMargin)) {
			continue
		}
		d := digest.NewDigestFromEncoded(digest.SHA256, e.Name())
		if checkDigest(d) != nil {
			continue
		}
		if err := f(d); err != nil {
			return err
		}
	}
	return nil
}
