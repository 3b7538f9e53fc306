package store

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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

// syncFS flushes all that was written to the file system of f.
func syncFS(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("flush %s: %w", f.Name(), err)
	}
	return nil
}

// spread tells the file system that what is in dir is unrelated, so that it puts
// new directories far from each other: chattr(1), "T", a hint of ext2 to ext4.
// Where those are without a journal, they take no inode that was freed in the
// last minute, and look at each such before they find one: after another layer
// was removed, the 1,000 directories and links of a registry layer took 0.3 s
// beside it, and take 0.05 s elsewhere. It is no fault when it cannot be said.
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

// InUserNamespace reports whether this process is in another user namespace
// than the machine's first, where root may not set attributes of the namespace
// "trusted." and may have no right to most owners.
func InUserNamespace() bool {
	const first = 0xeffffffd // PROC_USER_INIT_INO, part of Linux's interface
	var st unix.Stat_t
	return unix.Stat("/proc/self/ns/user", &st) == nil && st.Ino != first
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

// Attributes returns the extended attributes of a file or directory that layers
// keep, nil when it has none.
func Attributes(f *os.File) (map[string]string, error) {
	const most = 64 << 10 // of the names, and of a value; xattr(7)
	fd := int(f.Fd())
	n, err := unix.Flistxattr(fd, nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	buf := make([]byte, most)
	n, err = unix.Flistxattr(fd, buf)
	if err != nil {
		return nil, err
	}
	var out map[string]string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !KeepsAttribute(name) {
			continue
		}
		n, err := unix.Fgetxattr(fd, name, buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(buf[:n])
	}
	return out, nil
}

// setAttributes gives a file the extended attributes of a tar's records that
// layers keep, as far as this user and the file system may have them.
func setAttributes(f *os.File, records map[string]string) error {
	for record, value := range records {
		name, ok := strings.CutPrefix(record, AttributeRecord)
		if !ok || !KeepsAttribute(name) {
			continue
		}
		err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.ENOTSUP) {
			return &os.PathError{Op: "set " + name, Path: f.Name(), Err: err}
		}
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

// makeWhiteout and setOpaque write deletions in the form of overlayfs;
// Documentation/filesystems/overlayfs.rst of Linux. Since Linux 5.8 an ordinary
// user may make the device 0:0.
func makeWhiteout(path string) error {
	if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
		return &os.PathError{Op: "make whiteout", Path: path, Err: err}
	}
	return nil
}

func setOpaque(dir string, userxattr bool) error {
	name := "trusted.overlay.opaque"
	if userxattr {
		name = "user.overlay.opaque"
	}
	if err := unix.Setxattr(dir, name, []byte("y"), 0); err != nil {
		return &os.PathError{Op: "set " + name, Path: dir, Err: err}
	}
	return nil
}

// copyAttributes gives to the owner, mode, times and extended attributes of
// from.
func copyAttributes(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	extended, err := Attributes(f)
	if err != nil {
		return fmt.Errorf("extended attributes of %s: %w", from, err)
	}
	for name, value := range extended {
		if err := unix.Lsetxattr(to, name, []byte(value), 0); err != nil {
			return &os.PathError{Op: "set " + name, Path: to, Err: err}
		}
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 {
		if err := os.Chown(to, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return errors.Join(os.Chmod(to, fi.Mode()), os.Chtimes(to, fi.ModTime(), fi.ModTime()))
}

// mountOverlay mounts dirs, lowest first, read-only at target.
func mountOverlay(dirs []string, target string, userxattr bool) error {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("overlayfs: %w", err)
	}
	defer unix.Close(fs)
	// One option for each directory: no length limit, no escaping of colons.
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := unix.FsconfigSetString(fs, "lowerdir+", dirs[i]); err != nil {
			return mountOverlayOld(dirs, target, userxattr, err)
		}
	}
	if userxattr {
		if err := unix.FsconfigSetFlag(fs, "userxattr"); err != nil {
			return fmt.Errorf("overlayfs: %w", err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("overlayfs: %w", err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NODEV)
	if err != nil {
		return fmt.Errorf("overlayfs: %w", err)
	}
	defer unix.Close(m)
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount overlayfs at %s: %w", target, err)
	}
	return nil
}

// mountOverlayOld is mountOverlay before Linux 6.5.
func mountOverlayOld(dirs []string, target string, userxattr bool, first error) error {
	var lower []string
	for i := len(dirs) - 1; i >= 0; i-- {
		lower = append(lower, strings.ReplaceAll(dirs[i], ":", `\:`))
	}
	options := "lowerdir=" + strings.Join(lower, ":")
	if userxattr {
		options += ",userxattr"
	}
	err := unix.Mount("overlay", target, "overlay", unix.MS_RDONLY|unix.MS_NODEV, options)
	if err != nil {
		return fmt.Errorf("mount overlayfs at %s: %w (and %w)", target, err, first)
	}
	return nil
}

func unmount(target string) error {
	if err := unix.Unmount(target, 0); err != nil {
		return &os.PathError{Op: "unmount", Path: target, Err: err}
	}
	return nil
}

// mounted reports whether something is mounted at target: its device is not
// its parent's, or it is a mount of the same one.
func mounted(target string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW, 0, &st); err != nil {
		return false, &os.PathError{Op: "statx", Path: target, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
