package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
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
	if err := waitFlock(ctx, f, exclusive); err != nil {
		return nil, errors.Join(err, f.Close())
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
// returns nil when done reports that the wait has become needless. What a dead
// process left in the file is gone.
func (s *Store) claim(ctx context.Context, name string, done func() bool) (*os.File, error) {
	path := s.path("tmp", name)
	for {
		if done() {
			return nil, nil
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		err = waitFlock(ctx, f, true)
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

// empty removes what is in f. A file that has nothing is let be: ext4 writes one
// that was truncated to the disk when it is closed, and the closer waits.
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

// tempDir makes a temporary directory in ROOT/tmp. It is in use until the
// returned file, the open directory, is closed.
func (s *Store) tempDir(kind string) (*os.File, error) {
	for {
		path := s.path("tmp", kind+"-"+rand.Text())
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a cleaner was faster than the lock
		}
		if err != nil {
			return nil, err
		}
		ok, err := tryFlock(f, true)
		if err == nil && ok && same(f, path) {
			if err = f.Chmod(0o755); err == nil { // as a layer's root, whatever the umask is
				return f, nil
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
func discard(f *os.File) error {
	return errors.Join(removeAll(f.Name()), f.Close())
}

// removeAll is os.RemoveAll that also removes what is in directories that may
// not be written, as a layer may bring them.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(path)
}

// sweep removes the temporaries of dead processes, not their session records,
// and returns what it removed with the bytes it held.
func (s *Store) sweep(dry bool) ([]Garbage, error) {
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
		path := s.path("tmp", e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue // its owner was faster
		}
		ok, err := tryFlock(f, true)
		if err == nil && ok && same(f, path) {
			out = append(out, Garbage{Kind: "temporary", Path: path, Size: diskSize(path)})
			if !dry {
				err = removeAll(path)
			}
		}
		errs = append(errs, err, f.Close())
	}
	return out, errors.Join(errs...)
}
