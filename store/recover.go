package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
)

// recover clears the unfinished work of dead processes. In a store that may not be
// written it does nothing.
func (s *Store) recover() error {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil || len(entries) == 0 {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	if _, err := s.sweep(false, false); err != nil {
		s.o.Logger.Warn("clear temporaries", "store", s.root, "error", err)
	}
	if !s.fromAnotherBoot() {
		return s.mendAtOpen() // the page cache has the rest; the next flush removes the records
	}
	// One inspects; whoever opens the store meanwhile waits.
	ctx := context.Background()
	lock, err := s.lock(ctx, "recover", true)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	dead := s.deadSessions()
	defer closeAll(dead)
	boot, dropped := bootID(), false
	for _, f := range dead {
		r, err := readRecord(f)
		if err == nil && r.Boot == boot && boot != "" {
			continue
		}
		if err != nil { // nothing readable: no layer, and a time from the file
			if fi, err := f.Stat(); err == nil {
				r.since = fi.ModTime()
			}
		}
		if err := s.inspect(f, r); err != nil {
			return err
		}
		dropped = dropped || len(r.layers) > 0
	}
	if dropped {
		return s.unpackAgain(ctx)
	}
	return nil
}

// mendAtOpen mends before anybody takes unproved content for cached. Content that cannot
// be mended now is mended by the next Commit, which fails when it cannot.
func (s *Store) mendAtOpen() error {
	err := s.mend(context.Background())
	if err != nil && !errors.Is(err, syscall.EROFS) && !errors.Is(err, fs.ErrPermission) {
		s.o.Logger.Warn("mend the store", "store", s.root, "error", err)
	}
	return nil
}

// fromAnotherBoot reports whether there is a record that was not written since
// the machine started.
func (s *Store) fromAnotherBoot() bool {
	boot := bootID()
	for _, name := range s.records() {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		r, err := readRecord(f)
		_ = f.Close()
		if err != nil || r.Boot != boot || boot == "" {
			return true
		}
	}
	return false
}

// unpackAgain unpacks the layers of all images that are not. An image that
// cannot be completed is left for verify to tell about.
func (s *Store) unpackAgain(ctx context.Context) error {
	idx, err := s.readIndex()
	if err != nil {
		return err
	}
	for _, entry := range idx.Manifests {
		manifests, _, err := s.manifests(ctx, entry)
		for _, m := range manifests {
			_, incomplete := s.complete(ctx, m)
			err = errors.Join(err, incomplete)
		}
		if err != nil {
			s.o.Logger.Warn("an image is not whole", "image", nameOr(entry), "error", err)
		}
	}
	return nil
}

// readRecord reads a session record.
func readRecord(f *os.File) (r record, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return r, err
	}
	fi, err := f.Stat()
	if err != nil {
		return r, err
	}
	sc := bufio.NewScanner(f)
	if !sc.Scan() {
		return r, errors.Join(io.ErrUnexpectedEOF, sc.Err())
	}
	if err := json.Unmarshal(sc.Bytes(), &r.sessionHead); err != nil {
		return r, err
	}
	if r.since = r.Began; r.since.IsZero() { // of a version that did not note it
		r.since = fi.ModTime()
	}
	covered, began := 0, r.since // by the flush that began last
	for sc.Scan() {
		word, rest, _ := strings.Cut(sc.Text(), " ")
		switch {
		case word == lineFlush:
			if t, err := time.Parse(time.RFC3339Nano, rest); err == nil {
				covered, began, r.flushing = len(r.layers), t, true
			}
		case word == lineFlushed:
			r.layers, r.since = r.layers[covered:], began
			covered, r.flushing, r.failed = 0, false, false
		case word == lineFailed:
			r.flushing, r.failed = false, true
		case ref.IsSHA256(digest.Digest(word)):
			r.layers = append(r.layers, digest.Digest(word))
		}
	}
	return r, sc.Err()
}

// inspect looks at the content that a session published and that the power
// failure may have taken: layers are dropped, to be unpacked again from their
// blobs; blobs are read, and dropped when they are broken.
func (s *Store) inspect(f *os.File, r record) error {
	if err := s.dropLayers(r.layers); err != nil {
		return err
	}
	err := s.eachBlobSince(r.since, func(d digest.Digest) error {
		err := s.checkBlob(d)
		if err == nil {
			return nil
		}
		s.o.Logger.Warn("drop a blob that was not flushed before the machine stopped", "blob", d, "error", err)
		return os.Remove(s.BlobPath(d))
	})
	if err != nil {
		return err
	}
	return os.Remove(f.Name())
}
