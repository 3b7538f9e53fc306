package store

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"strings"

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

// syncFS flushes all that was written to the file system of f.
func syncFS(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("flush %s: %w", f.Name(), err)
	}
	return nil
}

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

// diskErrors are what the disk says, never the name of a file.
func diskErrors() []error {
	return []error{unix.ENOSPC, unix.EDQUOT, unix.EROFS, unix.EIO, unix.EMFILE, unix.ENFILE, unix.EPERM, unix.ENOMEM}
}

// makeNode makes a device node or a fifo.
func makeNode(in *os.Root, name string, h *tar.Header) error {
	d, err := in.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	mode := uint32(h.Mode & 0o777)
	switch h.Typeflag {
	case tar.TypeChar:
		mode |= unix.S_IFCHR
	case tar.TypeBlock:
		mode |= unix.S_IFBLK
	default:
		mode |= unix.S_IFIFO
	}
	err = unix.Mknodat(int(d.Fd()), name, mode, int(unix.Mkdev(uint32(h.Devmajor), uint32(h.Devminor))))
	if err != nil {
		return &os.PathError{Op: "mknod", Path: name, Err: err}
	}
	return nil
}
