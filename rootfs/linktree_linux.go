package rootfs

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/layer"
)

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
	extended, err := layer.Attributes(f)
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
