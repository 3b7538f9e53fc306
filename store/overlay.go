package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/rootfs"
)

// overlayDir returns where the layers with deletions are kept in the form of
// overlayfs.
func overlayDir(userxattr bool) string {
	if userxattr {
		return "data/overlay2-user"
	}
	return "data/overlay2-root"
}

// OverlayDirs returns the directories of the layers, lowest first, in the form
// that overlayfs wants: a layer with deletions is represented by a copy of
// hard links, made once and kept, in which they are character devices 0:0 and
// the attribute overlay.opaque (of the namespace "user." when userxattr is
// set, as in a mount inside a user namespace, else "trusted."). Every other
// layer is its own directory. overlayfs rejects a repeated directory: of a
// repeated layer only the highest is kept, which hides the lower ones completely.
// More than rootfs.MaxLayers are an error.
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
	if len(out) > rootfs.MaxLayers {
		return nil, fmt.Errorf("%d layers, and overlayfs takes %d: join instructions, so that there are fewer", len(out), rootfs.MaxLayers)
	}
	return out, nil
}

func (s *Store) overlayLayer(ctx context.Context, id digest.Digest, userxattr bool) (_ string, err error) {
	made := s.path(overlayDir(userxattr), encoded(id))
	if _, err := os.Stat(made); err == nil {
		return made, nil
	}
	dir, err := s.Tree(ctx, id)
	if err != nil {
		return "", err
	}
	if has, err := rootfs.HasWhiteouts(dir); err != nil || !has {
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
	if err := rootfs.LinkTree(dir, to, userxattr); err != nil {
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

// Rootfs opens the merged tree of the layers, lowest first. The caller closes
// it. The error wraps ErrNotFound when a layer is not unpacked here. A registry
// tree that is not written is not in it: Tree writes it.
func (s *Store) Rootfs(ids []digest.Digest) (*rootfs.FS, error) {
	var dirs []string
	for _, id := range ids {
		switch {
		case s.hasLayer(id):
			dirs = append(dirs, s.LayerDir(id))
		case !s.IsUnwritten(id):
			return nil, fmt.Errorf("layer %s: %w", id, ErrNotFound)
		}
	}
	return rootfs.Open(dirs)
}
