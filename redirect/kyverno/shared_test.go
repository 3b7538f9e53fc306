package kyverno_test

import (
	"os"
	"path/filepath"
	"testing"
)

// shared returns a path among the files that are kept beside the repository
// (../shared, or SEALER_SHARED), and skips the test where there are none.
func shared(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SEALER_SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	path := filepath.Join(dir, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared files: %v", err)
	}
	return path
}
