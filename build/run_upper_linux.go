package build

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An upperWalker turns overlayfs's upper directory into entries: its deletions
// become ".wh." files.
type upperWalker struct {
	root    *os.Root
	dir     string
	opaque  string // the attribute of a directory that hides the lower ones
	warn    func(msg string)
	entries []entry
}

func (u *upperWalker) walk(dir string) error {
	list, err := readDir(u.root, dir)
	if err != nil {
		return err
	}
	for _, d := range list {
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name := path.Join(dir, d.Name())
		if err := u.add(name, fi); err != nil {
			return err
		}
	}
	return nil
}

func (u *upperWalker) add(name string, fi fs.FileInfo) error {
	e := entry{name: name, mode: int64(fi.Mode().Perm())}
	switch m := fi.Mode(); {
	case isWhiteout(fi):
		e = entry{name: path.Join(path.Dir(name), whiteoutPrefix+path.Base(name)), typ: tar.TypeReg, mode: 0o644}
	case strings.HasPrefix(path.Base(name), whiteoutPrefix):
		return fmt.Errorf("%s: names that begin with %s mean a deletion in a layer", name, whiteoutPrefix)
	case m.IsDir():
		e.typ = tar.TypeDir
		u.entries = append(u.entries, e)
		if u.isOpaque(name) {
			u.entries = append(u.entries, entry{name: path.Join(name, opaqueName), typ: tar.TypeReg, mode: 0o644})
		}
		return u.walk(name)
	case m.IsRegular():
		if m&fs.ModeSetuid != 0 {
			e.mode |= 0o4000
		}
		if m&fs.ModeSetgid != 0 {
			e.mode |= 0o2000
		}
		e.typ, e.size, e.root, e.path = tar.TypeReg, fi.Size(), u.root, name
	case m&fs.ModeSymlink != 0:
		link, err := u.root.Readlink(name)
		if err != nil {
			return err
		}
		e.typ, e.link, e.mode = tar.TypeSymlink, link, 0o777
	default:
		u.warn(fmt.Sprintf("%s is left out: it is %s", name, kind(m)))
		return nil
	}
	u.entries = append(u.entries, e)
	return nil
}

const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// isWhiteout reports overlayfs's mark of a deletion, a character device 0:0.
func isWhiteout(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

func (u *upperWalker) isOpaque(name string) bool {
	var buf [1]byte
	n, err := unix.Lgetxattr(filepath.Join(u.dir, filepath.FromSlash(name)), u.opaque, buf[:])
	return err == nil && n == 1 && buf[0] == 'y'
}
