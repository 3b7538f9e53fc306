// Package redirecttest finds the files that tests of the redirect share and that do
// not belong into the repository: Kyverno's install files and policies.
package redirecttest

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns a path among the files beside the repository: in ../shared, or in
// the directory SHARED, which is relative to the repository. It skips the test where
// the file is not there.
func Shared(t *testing.T, name string) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("SHARED"), "../shared")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root(t), dir)
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared files: %v", err)
	}
	return path
}

// root returns the repository's directory: the one above with a go.mod.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd() // of a test: its package's
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}
