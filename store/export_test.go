package store_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// exported commits the image "a" of two layers and a mirrored image.
func exported(t *testing.T) *store.Store {
	t.Helper()
	s := open(t, t.TempDir())
	commitImage(t, s, "a", image.Config{},
		addLayer(t, s, entry{name: "etc/", mode: 0o750}, file("etc/a", "1"), file("etc/gone", "1"), entry{name: "bin/"}, entry{name: "bin/run", content: "#!", mode: 0o4755}),
		addLayer(t, s, entry{name: "etc/", mode: 0o750}, file("etc/a", "22"), file("etc/.wh.gone", ""), entry{name: "link", link: "etc/a"}),
		registryLayer(t, s, "library/nginx", "one"))
	return s
}

func TestExportTar(t *testing.T) {
	t.Parallel()
	s := exported(t)
	type header struct {
		Mode    int64
		Content string
		Time    int64
	}
	var first, second, small bytes.Buffer
	for w, o := range map[io.Writer]store.ExportOptions{&first: {}, &second: {}, &small: {NoRegistry: true}} {
		if err := s.ExportTar(t.Context(), w, "a", o); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two exports differ")
	}
	if !bytes.Contains(first.Bytes(), []byte(tree.Root+"/docker/registry/v2/repositories/library/nginx")) {
		t.Error("the registry tree is not there")
	}
	got := map[string]header{}
	for tr := tar.NewReader(&small); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s belongs to %d:%d %s:%s", h.Name, h.Uid, h.Gid, h.Uname, h.Gname)
		}
		got[h.Name] = header{h.Mode, h.Linkname + string(b), h.ModTime.Unix()}
	}
	want := map[string]header{
		"etc/": {0o750, "", 1}, "etc/a": {0o644, "22", 1}, "bin/": {0o755, "", 1}, "bin/run": {0o4755, "#!", 1}, "link": {0o777, "etc/a", 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := s.ExportTar(t.Context(), io.Discard, "none", store.ExportOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no image: %v", err)
	}
	if err := s.ExportTar(t.Context(), full{}, "a", store.ExportOptions{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.ExportTar(ctx, io.Discard, "a", store.ExportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestExportDir(t *testing.T) {
	t.Parallel()
	s := exported(t)
	base := t.TempDir()
	empty, taken := filepath.Join(base, "empty"), filepath.Join(base, "taken")
	if err := errors.Join(os.Mkdir(empty, 0o700), os.Mkdir(taken, 0o700), os.WriteFile(filepath.Join(taken, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(base, "new"), empty} {
		if err := s.ExportDir(t.Context(), dir, "a", store.ExportOptions{NoRegistry: true}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"etc/a": "22", "bin/run": "#!", "link": "22"}, content(t, os.DirFS(dir))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", dir, diff)
		}
		for name, want := range map[string]fs.FileMode{".": fs.ModeDir | 0o755, "etc": fs.ModeDir | 0o750, "etc/a": 0o644, "bin/run": 0o755, "link": fs.ModeSymlink | 0o777} {
			fi, err := os.Lstat(filepath.Join(dir, name))
			if err != nil || fi.Mode() != want {
				t.Errorf("%s: %v, %v; want %v", name, fi.Mode(), err, want)
			}
			if name == "etc" || name == "etc/a" {
				if !fi.ModTime().Equal(time.Unix(1, 0)) {
					t.Errorf("%s: %v", name, fi.ModTime())
				}
			}
		}
	}
	whole := filepath.Join(base, "whole")
	if err := s.ExportDir(t.Context(), whole, "a", store.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(whole, tree.Root, "docker/registry/v2/repositories/library/nginx")); err != nil {
		t.Error(err)
	}
	if err := s.ExportDir(t.Context(), taken, "a", store.ExportOptions{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("into a directory with files: %v", err)
	}
	if err := s.ExportDir(t.Context(), filepath.Join(taken, "x"), "a", store.ExportOptions{}); err == nil {
		t.Error("onto a file")
	}
	if err := s.ExportDir(t.Context(), filepath.Join(base, "none", "x"), "a", store.ExportOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below a directory that is not there: %v", err)
	}
	if err := s.ExportDir(t.Context(), filepath.Join(base, "nothing"), "none", store.ExportOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("no image: %v", err)
	}
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != 4 {
		t.Errorf("beside the directories: %v, %v", entries, err)
	}
}
