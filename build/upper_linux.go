package build

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/layer"
)

// An upperWalker turns overlayfs's upper directory into entries. Deletions
// become ".wh." files.
type upperWalker struct {
	root    *os.Root
	opaque  string // the attribute of a directory that hides the lower ones
	warn    func(msg string)
	linked  map[uint64]int // of files with more names than one: the first's entry, by inode
	entries []entry
}

// newUpperWalker returns a walker of an upper directory whose overlayfs marked
// its directories by attributes "user." or "trusted.".
func newUpperWalker(root *os.Root, userXattr bool, warn func(msg string)) *upperWalker {
	u := &upperWalker{root: root, opaque: "trusted.overlay.opaque", linked: map[uint64]int{}, warn: warn}
	if userXattr {
		u.opaque = "user.overlay.opaque"
	}
	return u
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
	m := fi.Mode()
	e := entry{name: name}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		e.mode = int64(st.Mode & 0o7777)
	}
	switch {
	case isWhiteout(fi):
		e = entry{name: path.Join(path.Dir(name), layer.WhiteoutPrefix+path.Base(name)), typ: tar.TypeReg, mode: 0o644}
	case layerName(name) != nil:
		return fmt.Errorf("%s: %w", name, layerName(name))
	case m.IsDir():
		e.typ = tar.TypeDir
		opaque, err := u.attributes(&e, m, 0o500)
		if err != nil {
			return err
		}
		u.entries = append(u.entries, e)
		if opaque {
			u.entries = append(u.entries, entry{name: path.Join(name, layer.OpaqueName), typ: tar.TypeReg, mode: 0o644})
		}
		return u.walk(name)
	case m.IsRegular():
		st, ok := fi.Sys().(*syscall.Stat_t)
		e.hard = ok && st.Nlink > 1
		if e.hard {
			if i, known := u.linked[st.Ino]; known {
				e = u.entries[i]
				e.name = name
				break
			}
			u.linked[st.Ino] = len(u.entries)
		}
		e.typ, e.size, e.root, e.path = tar.TypeReg, fi.Size(), u.root, name
		if _, err := u.attributes(&e, m, 0o400); err != nil {
			return err
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

// attributes reads the extended attributes of e that a layer keeps, and reports
// whether e is opaque. Permissions in need that the owner lacks are added:
// sealer reads the file as its owner.
func (u *upperWalker) attributes(e *entry, m fs.FileMode, need fs.FileMode) (opaque bool, err error) {
	if m&need != need {
		if err := u.root.Chmod(e.name, m|need); err != nil {
			return false, fmt.Errorf("%s: %w", e.name, plain(err))
		}
	}
	f, err := u.root.Open(e.name)
	if err != nil {
		return false, fmt.Errorf("%s: %w", e.name, plain(err))
	}
	defer f.Close()
	if e.xattrs, err = layer.Attributes(f); err != nil {
		return false, fmt.Errorf("extended attributes of %s: %w", e.name, err)
	}
	if v, ok := e.xattrs[layer.AttributeCapability]; ok {
		e.xattrs[layer.AttributeCapability] = string(capabilities([]byte(v)))
	}
	var mark [1]byte
	n, err := unix.Fgetxattr(int(f.Fd()), u.opaque, mark[:])
	return err == nil && n == 1 && mark[0] == 'y', nil
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
