package layer

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
)

// dir makes a directory, or keeps the one that is there.
func (u *unpacker) dir(name string, h *tar.Header) error {
	if err := u.leave(); err != nil {
		return err
	}
	if name != "." {
		if fi, err := u.root.Lstat(name); err == nil && !fi.IsDir() {
			if err := u.root.Remove(name); err != nil {
				return hostile(err)
			}
		}
		if err := u.mkdirAll(name); err != nil {
			return hostile(err)
		}
	}
	h, err := u.kept.keep(name, h)
	if err != nil {
		return err
	}
	u.dirs = append(u.dirs, h)
	return nil
}

// mkdirAll makes a directory and its parents with mode 0755, whatever the umask
// is. The time that it takes grows with the depth of name, not with its square:
// a tar may name very deep ones.
func (u *unpacker) mkdirAll(name string) (err error) {
	if err = mkdir(u.root, name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parts := strings.Split(name, "/")
	have := sort.Search(len(parts), func(i int) bool { // the first that is not there
		_, err := u.root.Stat(path.Join(parts[:i+1]...))
		return err != nil
	})
	in, err := u.root.OpenRoot(path.Join(".", path.Join(parts[:have]...)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	for _, part := range parts[have:] {
		if err := mkdir(in, part); err != nil {
			return err
		}
		next, err := in.OpenRoot(part)
		if err != nil {
			return err
		}
		in, next = next, in
		if err := next.Close(); err != nil {
			return err
		}
	}
	return nil
}

// mkdir makes a directory unless it is there.
func mkdir(in *os.Root, name string) error {
	err := in.Mkdir(name, 0o755)
	if err == nil {
		err = in.Chmod(name, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// extended sets the extended attributes of a directory.
func (u *unpacker) extended(h *tar.Header) error {
	if len(h.PAXRecords) == 0 {
		return nil
	}
	f, err := u.root.Open(h.Name)
	if err != nil {
		return hostile(err)
	}
	defer f.Close()
	return setAttributes(f, h.PAXRecords)
}

// Remove removes the directory of a layer. Unlike os.RemoveAll it removes the
// files in directories that their owner may not write, as a layer may bring them.
func Remove(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(dir)
}
