package rootfs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/clusterimage/sealer/rootfs"
)

// Pushing reads many files of one merged tree at once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	lower, upper := t.TempDir(), t.TempDir()
	for i := range 40 {
		for _, dir := range []string{lower, upper} {
			file := filepath.Join(dir, fmt.Sprintf("d%d", i), "e", fmt.Sprintf("f%d", i))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(dir), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	root, err := rootfs.Open([]string{lower, upper})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() {
			for i := range 40 {
				n := (i + 5*w) % 40
				name := fmt.Sprintf("d%d/e/f%d", n, n)
				got, err := fs.ReadFile(root, name)
				if err != nil || string(got) != upper {
					t.Errorf("ReadFile(%s) = %q, %v; want %q", name, got, err, upper)
				}
			}
		})
	}
	workers.Wait()
}
