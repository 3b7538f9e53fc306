package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// overlayDir returns where the layers with deletions are kept in the form of
// overlayfs.
func overlayDir(userxattr bool) string {
	if userxattr {
		return "data/overlay2-user"
	}
	return "data/overlay2-root"
}

// maxLower is OVL_MAX_STACK of Linux.
const maxLower = 500

// OverlayDirs returns the directories of the layers, lowest first, in the form
// that overlayfs wants: a layer with deletions is represented by a copy of
// hard links, made once and kept, in which they are character devices 0:0 and
// the attribute overlay.opaque (of the namespace "user." when userxattr is
// set, as in a mount inside a user namespace, else "trusted."). Every other
// layer is its own directory. A layer that stands more than once is returned
// where it stands highest: it decides there all that it decides below, and
// overlayfs takes no directory twice. More layers than it takes are an error.
func (s *Store) OverlayDirs(ctx context.Context, ids []digest.Digest, userxattr bool) ([]string, error) {
	var out []string
	for i, id := range ids {
		if slices.Contains(ids[i+1:], id) {
			continue
		}
		dir, err := s.overlayLayer(ctx, id, userxattr)
		if err != nil {
			return nil, fmt.Errorf("layer %s for overlayfs: %w", id, err)
		}
		out = append(out, dir)
	}
	if len(out) > maxLower {
		return nil, fmt.Errorf("%d layers, and overlayfs takes %d: join instructions, so that there are fewer", len(out), maxLower)
	}
	return out, nil
}

func (s *Store) overlayLayer(ctx context.Context, id digest.Digest, userxattr bool) (_ string, err error) {
	made := s.path(overlayDir(userxattr), encoded(id))
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	dir := s.LayerDir(id)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return "", ErrNotFound
	}
	if has, err := hasWhiteouts(dir); err != nil || !has {
		return dir, err
	}
	if _, err := s.begin(ctx); err != nil {
		return "", err
	}
	tmp, err := s.tempDir("overlay")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, discard(tmp)) }()
	to := filepath.Join(tmp.Name(), "l")
	if err := linkTree(dir, to, userxattr); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(made), 0o700); err != nil {
		return "", err
	}
	if err := os.Rename(to, made); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return made, nil
}

func hasWhiteouts(dir string) (_ bool, err error) {
	root, err := os.OpenRoot(dir) // whose paths may be longer than the kernel's
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	found := errors.New("found")
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), whiteoutPrefix) {
			return found
		}
		return err
	})
	if err == found { //nolint:errorlint // it is ours, unwrapped
		return true, nil
	}
	return false, err
}

// linkTree makes to a copy of the layer from: directories anew, whiteouts
// translated, everything else as hard links.
func linkTree(from, to string, userxattr bool) error {
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
		hidden, isWhiteout := strings.CutPrefix(d.Name(), whiteoutPrefix)
		switch {
		case d.Name() == whiteoutOpaque:
			return setOpaque(filepath.Dir(dst), userxattr)
		case isWhiteout:
			return makeWhiteout(filepath.Join(filepath.Dir(dst), hidden)) // before what it hides: "." sorts first
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
