package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// visible are the machine's directories that a command sees: programs, their
// libraries and their settings. A machine has some of them.
func visible() []string {
	return []string{
		"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt", "etc",
		"nix", "gnu", // stores of packages
		"var/lib/ca-certificates", // where openSUSE's /etc/ssl leads
	}
}

// hostRoot makes a root of the machine's programs, read-only, with the rootfs at
// Root.
func (c *childConfig) hostRoot(scratch, root string, names resolver) error {
	if err := mountTmpfs(root, "mode=0755"); err != nil {
		return err
	}
	for _, name := range visible() {
		if err := show(root, name); err != nil {
			return fmt.Errorf("mount /%s: %w", name, err)
		}
	}
	if err := hidePrivate(filepath.Join(root, "etc")); err != nil {
		return err
	}
	for _, dir := range c.Hide {
		if err := mask(filepath.Join(root, dir)); err != nil {
			return fmt.Errorf("hide %s: %w", dir, err)
		}
	}
	if err := furnish(root); err != nil {
		return err
	}
	if err := varDir(filepath.Join(root, "var")); err != nil {
		return err
	}
	if err := names.write(root); err != nil {
		return err
	}
	rootfs := filepath.Join(root, Root)
	if err := os.MkdirAll(rootfs, 0o755); err != nil {
		return err
	}
	if err := c.overlay(scratch, rootfs); err != nil {
		return err
	}
	return setReadOnly(root, 0)
}

// show binds /name of the machine, read-only, into root, or copies it if it is a
// symbolic link. A missing name is no error.
func show(root, name string) error {
	from, to := "/"+name, filepath.Join(root, name)
	fi, err := os.Lstat(from)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return err
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	case !fi.IsDir():
		return nil
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return setReadOnly(to, unix.AT_RECURSIVE)
}

// setReadOnly makes the mount at path read-only and without devices and setuid
// programs; flags may be AT_RECURSIVE.
func setReadOnly(path string, flags uint) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, flags, attr); err != nil {
		return fmt.Errorf("make the machine's files read-only (Linux 5.12 or later can): %w", err)
	}
	return nil
}

// hidePrivate masks every file below dir that not all users may read: password
// hashes, private keys, credentials. The command may run as their owner.
func hidePrivate(dir string) error {
	return filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil // the command cannot read it either
		}
		if err != nil {
			return err
		}
		if !e.IsDir() && !e.Type().IsRegular() {
			return nil
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		switch m := fi.Mode(); {
		case e.IsDir() && m&0o005 == 0o005, !e.IsDir() && m&0o004 != 0:
			return nil
		}
		if err := mask(name); err != nil {
			return fmt.Errorf("hide %s: %w", strings.TrimPrefix(name, filepath.Dir(dir)), err)
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// varDir makes the parts of /var that programs expect.
func varDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, to := range map[string]string{"run": "../run", "tmp": "../tmp"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// A resolver is the machine's /etc/resolv.conf.
type resolver struct {
	path    string // after symbolic links; "" if there is none
	content []byte
}

func nameServers() resolver {
	path, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil {
		return resolver{}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return resolver{}
	}
	return resolver{path, content}
}

// write puts the file into root if its directory is not among the visible ones,
// as for a link into /run.
func (r resolver) write(root string) error {
	if r.path == "" {
		return nil
	}
	to := filepath.Join(root, r.path)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	if err := os.WriteFile(to, r.content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", r.path, err)
	}
	return nil
}
