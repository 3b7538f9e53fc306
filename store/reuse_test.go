package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/store"
)

// TestWriteLayerLike makes a layer with the help of one that is alike (TestLike of
// the package layer has the cases): it is the layer that is made without, whatever
// became of the other one.
func TestWriteLayerLike(t *testing.T) {
	t.Parallel()
	was := []entry{file("a/changed", strings.Repeat("1", 100_000)), file("b/same", strings.Repeat("2", 100_000))}
	now := []entry{file("a/changed", strings.Repeat("1", 99_999)+"2"), was[1]}
	fresh := open(t, t.TempDir())
	want, err := fresh.WriteLayer(t.Context(), store.LayerOptions{}, writeTar(now...))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(t *testing.T, s *store.Store, like *image.Layer){
		"whole": func(*testing.T, *store.Store, *image.Layer) {},
		"gone": func(_ *testing.T, _ *store.Store, like *image.Layer) {
			like.ID, like.Descriptors[0].Digest = want.ID, want.ID
		},
		"broken blob": spoilBlob(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			like, err := s.WriteLayer(t.Context(), store.LayerOptions{}, writeTar(was...))
			if err != nil {
				t.Fatal(err)
			}
			before := s.LayerDir(like.ID)
			spoil(t, s, &like)
			got, err := s.WriteLayer(t.Context(), store.LayerOptions{Like: like}, writeTar(now...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the layer (-without, +with):\n%s", diff)
			}
			for file, same := range map[string]bool{"b/same": name != "gone", "a/changed": false} {
				if is := sameFile(t, filepath.Join(before, file), filepath.Join(s.LayerDir(got.ID), file)); is != same {
					t.Errorf("%s is one file in both: %v", file, is)
				}
			}
		})
	}
}

func spoilBlob(how func([]byte) []byte) func(t *testing.T, s *store.Store, like *image.Layer) {
	return func(t *testing.T, s *store.Store, like *image.Layer) {
		path := s.BlobPath(like.Descriptors[0].Digest)
		b, err := os.ReadFile(path)
		if err := errors.Join(err, os.Chmod(path, 0o600), os.WriteFile(path, how(b), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	x, err := os.Lstat(a)
	y, berr := os.Lstat(b)
	if err := errors.Join(err, berr); err != nil {
		t.Fatal(err)
	}
	return os.SameFile(x, y)
}
