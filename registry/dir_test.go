package registry

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestDirStaysInside opens a hostile tree both ways: by openat2, where the
// kernel has it, and by os.Root.
func TestDirStaysInside(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	inside := filepath.Join(top, "layer")
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(inside, "a/b"), 0o755))
	must(os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600))
	must(os.WriteFile(filepath.Join(inside, "a/b/link"), []byte("content"), 0o644))
	for name, target := range map[string]string{
		"near": "a/b/link", "up": "../secret", "absolute": filepath.Join(top, "secret"), "above": "a/../../secret", "parent": "..",
	} {
		must(os.Symlink(target, filepath.Join(inside, name)))
	}
	root, err := os.OpenRoot(inside)
	must(err)
	d, err := newDir(root)
	must(err)
	defer d.close()

	for path, want := range map[string]string{
		"a/b/link": "content", "near": "content",
		"up": "", "absolute": "", "above": "", "parent/secret": "", "../secret": "", "a/b/link/x": "", "none": "",
	} {
		for how, open := range map[string]func(string) (*os.File, error){"open": d.file, "walk": d.walkOpen} {
			var got []byte
			f, err := open(path)
			if err == nil {
				got, err = io.ReadAll(f)
				must(f.Close())
			}
			if string(got) != want || (err == nil) != (want != "") {
				t.Errorf("%s %s: %q, %v, want %q", how, path, got, err, want)
			}
			if want == "" && (path == "none" || path == "a/b/link/x") != absent(err) {
				t.Errorf("%s %s: absent is %v for %v", how, path, absent(err), err)
			}
		}
		for how, stat := range map[string]func(string) (fileInfo, error){"stat": d.stat, "walk": d.walkStat} {
			info, err := stat(path)
			if (err == nil) != (want != "") || info.size != int64(len(want)) || info.dir || (err == nil) == info.modified.IsZero() {
				t.Errorf("%s %s: %+v, %v", how, path, info, err)
			}
		}
	}
	if info, err := d.stat("a/b"); err != nil || !info.dir {
		t.Errorf("stat a/b: %+v, %v", info, err)
	}
}
