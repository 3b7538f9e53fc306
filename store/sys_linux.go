package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"unsafe"

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

// openDirLock opens the file that is locked for the directory dir: itself.
func openDirLock(dir string) (*os.File, error) { return os.Open(dir) }

func closeDirLock(f *os.File) error { return f.Close() }

// settleFile and settleDir do nothing: syncFS flushes all published content.
func settleFile(*os.File) error { return nil }

func settleDir(string) error { return nil }

// syncDir flushes the names in dir.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFS flushes all that was written to the file system of f.
func syncFS(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("flush %s: %w", f.Name(), err)
	}
	return nil
}

// directBlock is a multiple of every disk's block: O_DIRECT wants memory and
// offsets at its multiples; open(2).
const directBlock = 4096

// A directReader reads a file past the page cache.
type directReader struct {
	f   *os.File
	buf []byte // aligned
	got []byte // read and not yet returned
}

// openDirect opens a file whose content comes from the disk, whatever the page
// cache has: dirty pages are written first. It fails on file systems that may
// answer out of the page cache nevertheless, and for files so small that they may
// stand in the inode.
func openDirect(path string) (_ io.ReadCloser, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	var fsys unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fsys); err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fsys.Type != unix.EXT4_SUPER_MAGIC && fsys.Type != unix.XFS_SUPER_MAGIC || fi.Size() <= directBlock {
		return nil, errors.ErrUnsupported
	}
	const size = 1 << 20
	buf := make([]byte, size+directBlock)
	start := directBlock - int(uintptr(unsafe.Pointer(&buf[0]))%directBlock)
	return &directReader{f: f, buf: buf[start : start+size]}, nil
}

// Read implements io.Reader.
func (r *directReader) Read(p []byte) (int, error) {
	if len(r.got) == 0 {
		n, err := r.f.Read(r.buf)
		if n == 0 {
			return 0, err
		}
		r.got = r.buf[:n]
	}
	n := copy(p, r.got)
	r.got = r.got[n:]
	return n, nil
}

// Close implements io.Closer.
func (r *directReader) Close() error { return r.f.Close() }

// spread gives dir the attribute T of chattr(1), with which ext2 to ext4 put new
// directories far from each other. On ext4 without a journal, creating 1,000
// directories right after a removal scans recently freed inodes: 0.3 s instead of
// 0.05 s. Best effort.
func spread(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|fsTopDir))
	}
}

// fsTopDir is FS_TOPDIR_FL of linux/fs.h.
const fsTopDir = 0x00020000

// bootID tells this run of the machine from every other; proc(5).
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// freeSpace returns the bytes that an ordinary user may still write at dir.
func freeSpace(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// hasLinks reports whether a file has more than one name.
func hasLinks(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}
