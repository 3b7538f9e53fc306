//go:build !linux && !windows

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryFlock locks f without waiting and reports whether it got the lock. The
// lock ends when f is closed, at the latest when the process dies.
func tryFlock(f *os.File, exclusive bool) (bool, error) {
	how := unix.LOCK_SH | unix.LOCK_NB
	if exclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

func openTemp(path string) (*os.File, error) { return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) }

func openDirLock(dir string) (*os.File, error) { return os.Open(dir) }

func closeDirLock(f *os.File) error { return f.Close() }

// settleFile and settleDir flush content that is about to be published: no call flushes a
// whole file system here.
func settleFile(f *os.File) error { return f.Sync() }

func settleDir(dir string) error { return settleTree(dir) }

// syncFS flushes f; everything that was published is flushed before.
func syncFS(f *os.File) error { return f.Sync() }

// syncDir flushes the names in dir.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func openDirect(string) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

func spread(string) {}

// bootID is unknown: every record of a dead process is taken for one from before
// a restart.
func bootID() string { return "" }

// freeSpace returns the bytes that an ordinary user may still write at dir.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// hasLinks reports whether a file has more than one name.
func hasLinks(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
