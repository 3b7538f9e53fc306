package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// tryFlock locks f without waiting and reports whether it got the lock. The
// lock ends when f is closed, at the latest when the process dies. Locks of
// Windows forbid others to read the locked bytes: the lock is on a byte that no
// file has.
func tryFlock(f *os.File, exclusive bool) (bool, error) {
	var flags uint32 = windows.LOCKFILE_FAIL_IMMEDIATELY
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := windows.Overlapped{Offset: math.MaxUint32, OffsetHigh: math.MaxInt32}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION), errors.Is(err, windows.ERROR_IO_PENDING):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", f.Name(), err)
}

// openTemp opens a file that may be renamed while it is open, as os.Root opens
// files and os.OpenFile does not.
func openTemp(path string) (_ *os.File, err error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return root.OpenFile(filepath.Base(path), os.O_CREATE|os.O_RDWR, 0o600)
}

// openDirLock opens a file beside dir for its lock: an open directory could
// neither be locked nor renamed.
func openDirLock(dir string) (*os.File, error) {
	return os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
}

func closeDirLock(f *os.File) error { return errors.Join(f.Close(), os.Remove(f.Name())) }

// settleFile and settleDir flush content that is about to be published: no call flushes a
// whole file system here.
func settleFile(f *os.File) error { return f.Sync() }

func settleDir(dir string) error { return settleTree(dir) }

// syncFS flushes f; everything that was published is flushed before.
func syncFS(f *os.File) error { return f.Sync() }

// syncDir does nothing: NTFS keeps names in its journal, and directories cannot
// be flushed.
func syncDir(string) error { return nil }

func openDirect(string) (io.ReadCloser, error) { return nil, errors.ErrUnsupported }

func spread(string) {}

// bootID is unknown: every record of a dead process is taken for one from before
// a restart.
func bootID() string { return "" }

// freeSpace returns the bytes that this user may still write at dir.
func freeSpace(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(min(free, math.MaxInt64)), nil
}

// hasLinks is unknown: every tree is written.
func hasLinks(fs.FileInfo) bool { return false }
