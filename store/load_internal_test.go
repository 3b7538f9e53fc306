package store

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// A load that fails after its content was published, at the last flush, takes the
// content back.
func TestLoadRetracts(t *testing.T) {
	t.Parallel()
	from := openTest(t, t.TempDir())
	if err := buildTest(t, from); err != nil {
		t.Fatal(err)
	}
	idx, err := from.readIndex()
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := from.Save(t.Context(), &archive, []string{idx.Manifests[0].Digest.Encoded()}, SaveOptions{}); err != nil {
		t.Fatal(err)
	}
	to := openTest(t, t.TempDir())
	to.syncFS = func(*os.File) error { return syscall.EIO }
	if _, err := to.Load(t.Context(), &archive); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Load: %v", err)
	}
	for _, dir := range []string{"image/blobs/sha256", "data/overlay2"} {
		left, err := os.ReadDir(to.path(dir))
		if err != nil || len(left) > 0 {
			t.Errorf("%s: %v, %v", dir, left, err)
		}
	}
}
