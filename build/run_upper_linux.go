package build

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/store"
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
	case layerName(name) != nil:
		return fmt.Errorf("%s: %w", name, layerName(name))
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
		var err error
		if e.xattrs, err = attributes(filepath.Join(u.dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("extended attributes of %s: %w", name, err)
		}
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

// attributes reads the extended attributes of a file that a layer keeps.
func attributes(file string) (map[string]string, error) {
	const most = 64 << 10 // of the names, and of a value; xattr(7)
	buf := make([]byte, most)
	n, err := unix.Llistxattr(file, buf)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string]string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if !store.KeepsAttribute(name) {
			continue
		}
		n, err := unix.Lgetxattr(file, name, buf)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		value := buf[:n]
		if name == store.AttributeCapability {
			value = capabilities(value)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = string(value)
	}
	return out, nil
}

// capabilities returns a file's capabilities without the user namespace in
// which they were set (revision 3 is revision 2 and the namespace's root;
// linux/capability.h), so that the layer is the same whoever builds it.
func capabilities(v []byte) []byte {
	const revision2, size2, revision3, size3 = 2, 20, 3, 24
	if len(v) == size3 && v[3] == revision3 {
		v = v[:size2]
		v[3] = revision2
	}
	return v
}
