package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/clusterimage/sealer/layer"
)

// HasWhiteouts reports whether the layer in dir has deletions. Only such a layer
// needs LinkTree.
func HasWhiteouts(dir string) (_ bool, err error) {
	root, err := os.OpenRoot(dir) // whose paths may be longer than the kernel's
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	found := errors.New("found")
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), layer.WhiteoutPrefix) {
			return found
		}
		return err
	})
	if err == found { //nolint:errorlint // it is ours, unwrapped
		return true, nil
	}
	return false, err
}

// LinkTree makes to a copy of the layer from, in the form that overlayfs wants:
// directories anew, whiteouts as character devices 0:0 and opaque directories
// with the attribute overlay.opaque (of the namespace "user." when userxattr is
// set, as in a mount inside a user namespace, else "trusted."), everything else
// as hard links.
func LinkTree(from, to string, userxattr bool) error {
	var dirs []string
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		hidden, isWhiteout := strings.CutPrefix(d.Name(), layer.WhiteoutPrefix)
		switch {
		case d.Name() == layer.OpaqueName:
			return setOpaque(filepath.Dir(dst), userxattr)
		case isWhiteout:
			return makeWhiteout(filepath.Join(filepath.Dir(dst), hidden)) // before the entries that it hides: "." sorts first
		case d.IsDir():
			dirs = append(dirs, rel)
			err := os.Mkdir(dst, 0o700)
			if errors.Is(err, fs.ErrExist) { // its own whiteout came first: nothing below shows through
				err = errors.Join(os.Remove(dst), os.Mkdir(dst, 0o700), setOpaque(dst, userxattr))
			}
			return err
		}
		if err := os.Link(p, dst); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return errors.Join(os.Remove(dst), os.Link(p, dst)) // the whiteout beside it came first
	})
	for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
		err = copyAttributes(filepath.Join(from, dirs[i]), filepath.Join(to, dirs[i]))
	}
	return err
}
