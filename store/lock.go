package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/clusterimage/sealer/layer"
)

// waitFlock locks f, trying again until ctx is done: flock itself cannot be
// interrupted.
func waitFlock(ctx context.Context, f *os.File, exclusive bool) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		ok, err := tryFlock(f, exclusive)
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", f.Name(), context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// lock locks ROOT/locks/name, which stays when it is unlocked. Closing the
// file unlocks it.
func (s *Store) lock(ctx context.Context, name string, exclusive bool) (*os.File, error) {
	f, err := os.OpenFile(s.path("locks", name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := s.waitLock(ctx, f, exclusive); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if exclusive {
		s.sign(f)
	}
	return f, nil
}

// same reports whether path still names the open file f: it may have been
// renamed or removed by whoever held the lock before.
func same(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// claim opens and locks ROOT/tmp/name, making it when it is not there. It
// returns nil when done reports that the wait has become needless. Content that a
// dead process left in the file is gone.
func (s *Store) claim(ctx context.Context, name string, done func() bool) (*os.File, error) {
	path := s.path("tmp", name)
	for {
		if done() {
			return nil, nil
		}
		f, err := openTemp(path)
		if err != nil {
			return nil, err
		}
		err = s.waitLock(ctx, f, true)
		if err == nil && same(f, path) && !done() {
			if err = empty(f); err == nil {
				return f, nil
			}
		}
		if cerr := f.Close(); err != nil || cerr != nil {
			return nil, errors.Join(err, cerr)
		}
	}
}

// empty removes the content of f. An empty file is not truncated: ext4 flushes a
// truncated file on close, and close blocks.
func empty(f *os.File) error {
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return err
	}
	return f.Truncate(0)
}

// tempFile makes a locked temporary file in ROOT/tmp.
func (s *Store) tempFile(ctx context.Context, kind string) (*os.File, error) {
	return s.claim(ctx, kind+"-"+rand.Text(), func() bool { return false })
}

// A temporary is a locked file or directory in ROOT/tmp. It is in use until Close.
type temporary interface {
	Name() string // its path
	Close() error
}

// A lockedDir is a temporary directory.
type lockedDir struct {
	path string
	lock *os.File
}

func (d *lockedDir) Name() string { return d.path }
func (d *lockedDir) Close() error { return closeDirLock(d.lock) }

// tempDir makes a temporary directory in ROOT/tmp.
func (s *Store) tempDir(kind string) (*lockedDir, error) {
	for {
		path := s.path("tmp", kind+"-"+rand.Text())
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		f, err := openDirLock(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a cleaner was faster than the lock
		}
		if err != nil {
			return nil, err
		}
		ok, err := tryFlock(f, true)
		if err == nil && ok && same(f, f.Name()) {
			if err = os.Chmod(path, 0o755); err == nil { // as a layer's root, whatever the umask is
				return &lockedDir{path, f}, nil
			}
		}
		if cerr := f.Close(); err != nil || cerr != nil {
			return nil, errors.Join(err, cerr)
		}
	}
}

// TempDir makes a directory in the store's file system that prune leaves alone
// while this process lives. The caller calls remove, which deletes it with all
// that is in it.
func (s *Store) TempDir(ctx context.Context) (dir string, remove func() error, err error) {
	if _, err := s.begin(ctx); err != nil {
		return "", nil, err
	}
	f, err := s.tempDir("dir")
	if err != nil {
		return "", nil, fmt.Errorf("make temporary directory: %w", err)
	}
	return f.Name(), func() error { return discard(f) }, nil
}

// discard removes the temporary f, a file or a directory, and unlocks it.
func discard(f temporary) error {
	return errors.Join(layer.Remove(f.Name()), f.Close())
}

// sweep removes the temporaries of dead processes, not their session records,
// and returns the names it removed with the bytes they held. Beginnings of blobs
// stay for partialLife unless partials is set.
func (s *Store) sweep(dry, partials bool) ([]Garbage, error) {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []Garbage
	var errs []error
	for _, e := range entries {
		if isSession(e.Name()) || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err != nil || !partials && keptPartial(fi) {
			continue
		}
		path := s.path("tmp", e.Name())
		open, closeLock := os.Open, (*os.File).Close
		if e.IsDir() {
			open, closeLock = openDirLock, closeDirLock
		}
		f, err := open(path)
		if err != nil {
			continue // its owner was faster
		}
		ok, err := tryFlock(f, true)
		if err != nil || !ok || !same(f, f.Name()) {
			errs = append(errs, err, f.Close())
			continue
		}
		out = append(out, Garbage{Kind: "temporary", Path: path, Size: diskSize(path)})
		if !dry {
			err = layer.Remove(path)
		}
		errs = append(errs, err, closeLock(f))
	}
	return out, errors.Join(errs...)
}
