package rootfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Supported returns nil: Linux has overlayfs.
func Supported() error { return nil }

// Mount mounts o at target, an existing directory. Device nodes in it are dead.
// It needs CAP_SYS_ADMIN in the mount namespace of the process; the mount ends
// with Unmount, or with that namespace.
func (o Overlay) Mount(target string) error {
	lower, err := o.lower()
	if err != nil {
		return fmt.Errorf("mount overlayfs at %s: %w", target, err)
	}
	err = o.mountNew(lower, target)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// Before Linux 6.5 overlayfs takes no layers one by one; a path beyond
		// 255 bytes is too long for fsconfig(2) at any time.
		if olderr := o.mountOld(lower, target); olderr != nil {
			err = fmt.Errorf("%w (and %w)", olderr, err)
		} else {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("mount overlayfs at %s: %w", target, err)
	}
	return nil
}

// lower returns the layers, highest first, as many as overlayfs wants: one, or
// two without Upper.
func (o Overlay) lower() ([]string, error) {
	var lower []string
	for _, dir := range slices.Backward(o.Lower) {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		lower = append(lower, abs)
	}
	want := 2
	if o.Upper != "" {
		want = 1
	}
	for _, name := range []string{"a", "b"}[:max(0, want-len(lower))] {
		empty := filepath.Join(o.Spare, name)
		if err := os.MkdirAll(empty, 0o755); err != nil {
			return nil, err
		}
		lower = append(lower, empty)
	}
	return lower, nil
}

// switchedOff are the options that must be off so that Upper holds whole files
// under their own names, and nothing that only this mount could read. userxattr
// switches redirect_dir and metacopy off by itself, and conflicts with either.
func (o Overlay) switchedOff() []string {
	if o.UserXattr {
		return []string{"index"}
	}
	return []string{"redirect_dir", "metacopy", "index"}
}

// mountNew mounts by fsopen(2): one option for each directory, so that neither
// their number nor a character of a path matters.
func (o Overlay) mountNew(lower []string, target string) error {
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	set := func(key, value string) {
		if err == nil {
			err = unix.FsconfigSetString(fs, key, value)
		}
	}
	set("source", "overlay")
	for _, dir := range lower {
		set("lowerdir+", dir)
	}
	if o.Upper != "" {
		set("upperdir", o.Upper)
		set("workdir", o.Work)
		for _, option := range o.switchedOff() {
			_ = unix.FsconfigSetString(fs, option, "off") // a kernel without the option does not do it
		}
	}
	if o.UserXattr && err == nil {
		err = unix.FsconfigSetFlag(fs, "userxattr")
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return err
	}
	attributes := unix.MOUNT_ATTR_NODEV
	if o.Upper == "" {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if !o.SetUID {
		attributes |= unix.MOUNT_ATTR_NOSUID
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
	if err != nil {
		return err
	}
	defer unix.Close(m)
	return unix.MoveMount(m, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// mountOld mounts by mount(2), whose options must fit a page: the directories go
// by short names, links in a directory that a thread of its own works in.
func (o Overlay) mountOld(lower []string, target string) (err error) {
	target, err = filepath.Abs(target)
	if err != nil {
		return err
	}
	links, err := os.MkdirTemp("", "sealer-overlay")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(links)) }()
	var names []string
	for i, dir := range lower {
		names = append(names, strconv.Itoa(i))
		if err := os.Symlink(dir, filepath.Join(links, names[i])); err != nil {
			return err
		}
	}
	options := "lowerdir=" + strings.Join(names, ":")
	if o.Upper != "" {
		err := errors.Join(os.Symlink(o.Upper, filepath.Join(links, "upper")), os.Symlink(o.Work, filepath.Join(links, "work")))
		if err != nil {
			return err
		}
		options += ",upperdir=upper,workdir=work"
	}
	if o.UserXattr {
		options += ",userxattr"
	}
	return o.mountIn(links, target, options)
}

// mountIn calls mount(2) in dir.
func (o Overlay) mountIn(dir, target, options string) error {
	var flags uintptr = unix.MS_NODEV
	if o.Upper == "" {
		flags |= unix.MS_RDONLY
	}
	if !o.SetUID {
		flags |= unix.MS_NOSUID
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, with its working directory, ends with this function
		err := unix.Unshare(unix.CLONE_FS)
		if err == nil {
			err = unix.Chdir(dir)
		}
		if err == nil && o.Upper != "" {
			full := options
			for _, option := range o.switchedOff() {
				full += "," + option + "=off"
			}
			if err = unix.Mount("overlay", target, "overlay", flags, full); !errors.Is(err, unix.EINVAL) {
				done <- err
				return
			}
			err = nil // a kernel without these options does not do it
		}
		if err == nil {
			err = unix.Mount("overlay", target, "overlay", flags, options)
		}
		done <- err
	}()
	return <-done
}

// Unmount takes the mount at target off. It fails while files in it are open.
func Unmount(target string) error {
	if err := unix.Unmount(target, 0); err != nil {
		return &os.PathError{Op: "unmount", Path: target, Err: err}
	}
	return nil
}

// Mounted reports whether target is the root of a mount.
func Mounted(target string) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, target, unix.AT_SYMLINK_NOFOLLOW, 0, &st); err != nil {
		return false, &os.PathError{Op: "statx", Path: target, Err: err}
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}
