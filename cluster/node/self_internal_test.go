package node

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func TestSameContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for name, size := range map[string]int{"empty": 0, "small": 1, "one buffer": 256 << 10, "more": 256<<10 + 1, "two buffers and a half": 640 << 10} {
		content := make([]byte, size)
		for i := range content {
			content[i] = byte(random.Uint32())
		}
		file := func(name string, b []byte) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		a, b := file("a", content), file("b", content)
		for _, pair := range [][2]string{{a, a}, {a, b}} {
			if same, err := sameContent(pair[0], pair[1]); err != nil || !same {
				t.Errorf("%s: equal files differ: %v", name, err)
			}
		}
		if same, err := sameContent(a, file("b", append(content, 0))); err != nil || same {
			t.Errorf("%s: a longer file is equal: %v", name, err)
		}
		if size == 0 {
			continue
		}
		content[size-1]++
		if same, err := sameContent(a, file("b", content)); err != nil || same {
			t.Errorf("%s: a file with another last byte is equal: %v", name, err)
		}
	}
	if _, err := sameContent(filepath.Join(dir, "none"), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Two files of the size of sealer, as each machine compares them in each run.
func BenchmarkSameContent(b *testing.B) {
	dir := b.TempDir()
	content := make([]byte, 48<<20)
	var paths []string
	for _, name := range []string{"a", "b"} {
		paths = append(paths, filepath.Join(dir, name))
		if err := os.WriteFile(paths[len(paths)-1], content, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(2 * int64(len(content)))
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			if same, err := sameContent(paths[0], paths[1]); err != nil || !same {
				b.Fatal(err)
			}
		}
	})
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			for _, p := range paths {
				if _, err := digestFile(p); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
