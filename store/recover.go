package store

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

// recover clears what dead processes left. In a store that may not be written
// it does nothing.
func (s *Store) recover() error {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil || len(entries) == 0 {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	if _, err := s.sweep(false); err != nil {
		s.o.Logger.Warn("clear temporaries", "store", s.root, "error", err)
	}
	if !s.fromAnotherBoot() {
		return nil // the page cache has it all; the next flush removes the records
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
		head, layers, err := readRecord(f)
		if err == nil && head.Boot == boot && boot != "" {
			continue
		}
		if err := s.inspect(f, layers); err != nil {
			return err
		}
		dropped = dropped || len(layers) > 0
	}
	if dropped {
		return s.unpackAgain(ctx)
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
		head, _, err := readRecord(f)
		_ = f.Close()
		if err != nil || head.Boot != boot || boot == "" {
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
			err = errors.Join(err, s.complete(ctx, m))
		}
		if err != nil {
			s.o.Logger.Warn("an image is not whole", "image", nameOr(entry), "error", err)
		}
	}
	return nil
}

// readRecord reads a session record.
func readRecord(f *os.File) (head sessionHead, layers []digest.Digest, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return head, nil, err
	}
	sc := bufio.NewScanner(f)
	if !sc.Scan() {
		return head, nil, errors.Join(io.ErrUnexpectedEOF, sc.Err())
	}
	if err := json.Unmarshal(sc.Bytes(), &head); err != nil {
		return head, nil, err
	}
	for sc.Scan() {
		if d := digest.Digest(sc.Text()); checkDigest(d) == nil {
			layers = append(layers, d)
		}
	}
	return head, layers, sc.Err()
}

// clockMargin allows for a clock that was set back between two writes.
const clockMargin = 10 * time.Minute

// inspect looks at what a session published that the power failure may have
// taken the content of: layers are dropped, to be unpacked again from their
// blobs; blobs are read.
func (s *Store) inspect(record *os.File, layers []digest.Digest) error {
	fi, err := record.Stat()
	if err != nil {
		return err
	}
	since := fi.ModTime().Add(-clockMargin)
	for _, id := range layers {
		s.o.Logger.Warn("drop a layer that was not flushed before the machine stopped", "layer", id)
		if err := removeAll(s.LayerDir(id)); err != nil {
			return err
		}
	}
	for _, userxattr := range []bool{false, true} { // made anew when they are wanted
		if err := removeAll(s.path(overlayDir(userxattr))); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(s.path("image/blobs/sha256"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		fi, err := e.Info()
		if err != nil || fi.ModTime().Before(since) {
			continue
		}
		d := digest.NewDigestFromEncoded(digest.SHA256, e.Name())
		if err := s.checkBlob(d); err != nil {
			s.o.Logger.Warn("drop a blob that was not flushed before the machine stopped", "blob", d, "error", err)
			if err := os.Remove(s.BlobPath(d)); err != nil {
				return err
			}
		}
	}
	return os.Remove(record.Name())
}
