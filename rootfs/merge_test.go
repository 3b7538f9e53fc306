package rootfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/rootfs"
)

// tree writes files below a new directory: NAME/ is a directory, "-> TARGET" the
// content of a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(p), 0o755)
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case err != nil:
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(p, 0o755)
		case link:
			err = os.Symlink(target, p)
		default:
			err = os.WriteFile(p, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// merged opens the merged tree of layers, lowest first.
func merged(t *testing.T, layers ...map[string]string) *rootfs.FS {
	t.Helper()
	var dirs []string
	for _, files := range layers {
		dirs = append(dirs, tree(t, files))
	}
	r, err := rootfs.Open(dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestMergedTree(t *testing.T) {
	t.Parallel()
	chain := map[string]string{}
	for i := range 41 {
		chain[fmt.Sprintf("chain/%d", i)] = fmt.Sprintf("-> %d", i+1)
	}
	chain["chain/41"] = "end"
	r := merged(t,
		map[string]string{
			"etc/a": "1", "etc/b": "1", "opaque/x": "1", "gone/y": "1", "file": "1", "dir/z": "1", "emptied/deep/x": "1",
			"lib": "-> /usr/lib", "usr/lib/so": "1", "out": "-> ../../../etc/a", "loop": "-> loop", "up": "-> usr/lib/../../etc", "here": "-> .", "self/back": "-> ../self",
			"deeper/opaque/low": "1",
		},
		map[string]string{
			"etc/a": "2", "etc/.wh.b": "", "opaque/.wh..wh..opq": "", "opaque/new": "2", ".wh.gone": "",
			"dir": "2", "file/now": "2", "usr/lib/so": "2", "emptied/.wh.deep": "", "emptied/deep/y": "2",
		},
		map[string]string{"gone/again": "3", "emptied/deep/z": "3", "deeper/opaque/high": "3"}, chain)
	got := map[string]string{}
	err := fs.WalkDir(r, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(p, "chain/") {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			got[p], err = r.ReadLink(p)
			return err
		}
		b, err := fs.ReadFile(r, p)
		got[p] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"etc/a": "2", "opaque/new": "2", "gone/again": "3", "dir": "2", "file/now": "2", "usr/lib/so": "2", "emptied/deep/y": "2", "emptied/deep/z": "3",
		"lib": "/usr/lib", "out": "../../../etc/a", "loop": "loop", "up": "usr/lib/../../etc", "here": ".", "self/back": "../self",
		"deeper/opaque/low": "1", "deeper/opaque/high": "3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// A fresh tree each, whose directories nobody has looked at.
	for name, want := range map[string]string{
		"lib/so": "2", "out": "2", "up/a": "2", "here/etc/a": "2", "self/back/back/back": "directory", "chain/1": "end", "deeper/opaque/low": "1", "emptied/deep/y": "2",
	} {
		b, err := fs.ReadFile(r, name)
		if want == "directory" {
			if fi, err := r.Stat(name); err != nil || !fi.IsDir() || fi.Name() != "back" {
				t.Errorf("%s: %v, %v", name, fi, err)
			}
		} else if string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"etc/b", "opaque/x", "gone/y", "dir/z", "etc/.wh.b", "none/x", "etc/a/x", "emptied/deep/x"} {
		if _, err := fs.ReadFile(r, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want %v", name, err, fs.ErrNotExist)
		}
	}
	for name, want := range map[string]string{"loop": "too many symbolic links", "chain/0": "too many symbolic links", "etc": "directory"} {
		if _, err := fs.ReadFile(r, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// TestNames has the names that files have in the tree, not those they are reached by.
func TestNames(t *testing.T) {
	t.Parallel()
	r := merged(t, map[string]string{"a/file": "x", "a/link": "-> file", "a/up": "-> ..", "deep": "-> a/file"})
	for name, want := range map[string]string{".": ".", "a": "a", "a/file": "file", "a/link": "link", "a/up": "up", "deep": "deep"} {
		if fi, err := r.Stat(name); err != nil || fi.Name() != want {
			t.Errorf("Stat(%s): %v, %v", name, fi, err)
		}
	}
	if fi, err := r.Lstat("a/link"); err != nil || fi.Name() != "link" || fi.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("Lstat: %v, %v", fi, err)
	}
	if fi, err := r.Stat("a/up"); err != nil || !fi.IsDir() {
		t.Errorf("a link to the root: %v, %v", fi, err)
	}
	if target, err := r.ReadLink("deep"); target != "a/file" {
		t.Errorf("ReadLink: %q, %v", target, err)
	}
	for _, name := range []string{"a/file", "none", "../x", "/a"} {
		if _, err := r.ReadLink(name); err == nil {
			t.Errorf("ReadLink(%s) has no error", name)
		}
	}
	if _, err := r.ReadDir("a/file"); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("ReadDir of a file: %v", err)
	}
	if _, err := r.ReadDir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of nothing: %v", err)
	}
}

// TestReadDirInParts reads a directory with a limit, as fs.ReadDirFile has it.
func TestReadDirInParts(t *testing.T) {
	t.Parallel()
	r := merged(t, map[string]string{"a": "", "c": ""}, map[string]string{"b": "", "c": "2"})
	f, err := r.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for {
		entries, err := f.(fs.ReadDirFile).ReadDir(2)
		if len(entries) == 0 {
			if err != io.EOF {
				t.Errorf("at the end: %v", err)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		got = append(got, strings.Join(names, " "))
	}
	if diff := cmp.Diff([]string{"a b", "c"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	again, err := r.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	for i, want := range []int{3, 0} {
		if entries, err := again.(fs.ReadDirFile).ReadDir(0); err != nil || len(entries) != want {
			t.Errorf("all that is left, for the time %d: %v, %v", i+1, entries, err)
		}
	}
	if _, err := f.Read(nil); err == nil {
		t.Error("a directory is read as a file")
	}
}

// TestIsAnFS looks for the rules of fs.FS.
func TestIsAnFS(t *testing.T) {
	t.Parallel()
	r := merged(t, map[string]string{"a/b/c": "1", "a/d": "1", "a/l": "-> d"}, map[string]string{"a/b/e": "2", "a/.wh.d": "", "a/d/f": "2"})
	if err := fstest.TestFS(r, "a/b/c", "a/b/e", "a/d/f"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(merged(t)); err != nil {
		t.Error(err)
	}
	if _, err := rootfs.Open([]string{t.TempDir(), filepath.Join(t.TempDir(), "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a layer that is not there: %v", err)
	}
}

func TestHasWhiteouts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"none":   {map[string]string{"a/b": "", "wh.c": ""}, false},
		"a file": {map[string]string{"a/b": "", "a/d/.wh.c": ""}, true},
		"opaque": {map[string]string{"a/.wh..wh..opq": ""}, true},
		"empty":  {nil, false},
	} {
		if got, err := rootfs.HasWhiteouts(tree(t, tc.files)); err != nil || got != tc.want {
			t.Errorf("%s: %t, %v", name, got, err)
		}
	}
	if _, err := rootfs.HasWhiteouts(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
