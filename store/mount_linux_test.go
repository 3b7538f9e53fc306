package store_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

func TestMount(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	private(t, "mount")
}

// The layers of RUN in a user namespace.
func TestOverlayDirsOfAUser(t *testing.T) {
	t.Parallel()
	private(t, "overlay")
}

// mountLayers are the layers of the tests here, lowest first.
func mountLayers() [][]entry {
	return [][]entry{
		{file("etc/a", "1"), file("etc/b", "1"), file("opaque/x", "1"), file("gone/y", "1"), file("again/z", "1"), file("dir/x", "1")},
		{file("etc/a", "2"), file("etc/.wh.b", ""), file("opaque/.wh..wh..opq", ""), file("opaque/new", "2"), file(".wh.gone", ""),
			file(".wh.again", ""), file("again/now", "2"), file("dir", "2")},
		{file("gone/3", "3")},
	}
}

// childOverlay mounts in a user namespace.
func childOverlay(ctx context.Context, dir string) error {
	if err := mountTmpfs(dir, "size=50m"); err != nil {
		return err
	}
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	var ids []digest.Digest
	for _, entries := range mountLayers() {
		l, err := s.WriteLayer(ctx, store.LayerOptions{}, writeTar(entries...))
		if err != nil {
			return err
		}
		ids = append(ids, l.ID)
	}
	dirs, err := s.OverlayDirs(ctx, ids, true)
	if err != nil {
		return err
	}
	if dirs[0] != s.LayerDir(ids[0]) || dirs[1] == s.LayerDir(ids[1]) {
		return fmt.Errorf("directories %v", dirs)
	}
	r, err := s.Rootfs(ids)
	if err != nil {
		return err
	}
	defer r.Close()
	want, err := files(r)
	if err != nil {
		return err
	}
	at := filepath.Join(dir, "at")
	if err := os.Mkdir(at, 0o755); err != nil {
		return err
	}
	slices.Reverse(dirs)
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "userxattr,lowerdir="+strings.Join(dirs, ":")); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	got, err := files(os.DirFS(at))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New(diff)
	}
	return nil
}

// childMount mounts images and compares what is seen with what Rootfs says.
func childMount(ctx context.Context, dir string) error {
	// A file system that takes the attributes of overlayfs, and nobody else's.
	if err := mountTmpfs(dir, "size=50m"); err != nil {
		return err
	}
	s, err := store.Open(filepath.Join(dir, "store:with,odd\\characters"), store.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	contents := mountLayers()
	for n := range len(contents) + 1 {
		var layers []image.Layer
		for _, entries := range contents[:n] {
			l, err := s.WriteLayer(ctx, store.LayerOptions{}, writeTar(entries...))
			if err != nil {
				return err
			}
			layers = append(layers, l)
		}
		name := fmt.Sprintf("image%d", n)
		d, err := s.WriteImage(ctx, image.Config{Platform: platform.Default(), Layers: make([]image.ConfigLayer, n)}, layers, nil)
		if err != nil {
			return err
		}
		if err := s.Commit(ctx, nil, d); err != nil {
			return err
		}
		if err := s.Tag(ctx, d.Digest.Encoded(), named(name)); err != nil {
			return err
		}
		if err := compareMount(ctx, s, name, layers); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func compareMount(ctx context.Context, s *store.Store, name string, layers []image.Layer) error {
	m, err := s.Mount(ctx, name, store.MountOptions{})
	if err != nil {
		return err
	}
	if _, err := s.Mount(ctx, name, store.MountOptions{}); err == nil {
		return errors.New("mounted twice at one place")
	}
	var ids []digest.Digest
	for _, l := range layers {
		ids = append(ids, l.ID)
	}
	r, err := s.Rootfs(ids)
	if err != nil {
		return err
	}
	defer r.Close()
	want, err := files(r)
	if err != nil {
		return err
	}
	got, err := files(os.DirFS(m.Dir))
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New(diff)
	}
	if err := os.WriteFile(filepath.Join(m.Dir, "x"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("written to: %w", err)
	}
	// While it is mounted its layers stay, even when the image goes.
	if _, err := s.Remove(ctx, name); err != nil {
		return err
	}
	if again, err := files(os.DirFS(m.Dir)); err != nil || !cmp.Equal(want, again) {
		return fmt.Errorf("after rmi: %v, %w", again, err)
	}
	for _, l := range layers {
		if _, err := os.Stat(s.LayerDir(l.ID)); err != nil {
			return err
		}
	}
	if _, err := s.Unmount(ctx, m.Dir); err != nil {
		return err
	}
	if _, err := os.Stat(m.Dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the mount's directory: %w", err)
	}
	if _, err := s.Unmount(ctx, m.Dir); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("unmounted twice: %w", err)
	}
	return nil
}
