package layer

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// InUserNamespace reports whether this process is in another user namespace
// than the machine's first, where root may not set attributes of the namespace
// "trusted." and may have no right to most owners.
func InUserNamespace() bool {
	const first = 0xeffffffd // PROC_USER_INIT_INO, part of Linux's interface
	var st unix.Stat_t
	return unix.Stat("/proc/self/ns/user", &st) == nil && st.Ino != first
}

// diskErrors are errors of the disk, never of the name of a file.
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

// nonBlocking opens a fifo without waiting for who writes to it.
const nonBlocking = unix.O_NONBLOCK

// owned reports whether a file belongs to a user and a group.
func owned(fi fs.FileInfo, uid, gid int) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == uid && int(st.Gid) == gid
}

// link makes base in the directory in another name of the open file f; linkat(2),
// as an ordinary user may.
func link(f *os.File, in *os.Root, base string) error {
	dir, err := in.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), int(dir.Fd()), base, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: base, Err: err}
	}
	return nil
}

// A fileID tells files with several names apart.
type fileID struct{ device, inode uint64 }

// linked returns the ID of a file, and whether it has several names.
func linked(fi fs.FileInfo) (fileID, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || st.Nlink < 2 {
		return fileID{}, false
	}
	return fileID{uint64(st.Dev), st.Ino}, true //nolint:unconvert // its type differs between processors
}
