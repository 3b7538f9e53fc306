package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// A damaged image keeps nobody from pruning or removing the sound ones, and
// nothing that may be its own is taken.
func TestPruneBesideDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(*Image) ocispec.Descriptor{
		"no manifest": func(i *Image) ocispec.Descriptor { return i.Descriptor },
		"no config":   func(i *Image) ocispec.Descriptor { return i.Manifest.Config },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, t.TempDir())
			if err := buildTest(t, s); err != nil {
				t.Fatal(err)
			}
			other, err := ref.Parse("other")
			if err != nil {
				t.Fatal(err)
			}
			garbage, err := s.putBytes(t.Context(), "text/plain", []byte("garbage"))
			if err != nil {
				t.Fatal(err)
			}
			img, err := s.Image(t.Context(), "app", nil)
			if err != nil {
				t.Fatal(err)
			}
			sound, err := s.WriteImage(t.Context(), img.Config, img.Layers, map[string]string{"a": "b"})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(t.Context(), []ref.Reference{other}, sound); err != nil {
				t.Fatal(err)
			}
			lost := damage(img)
			if err := os.Remove(s.BlobPath(lost.Digest)); err != nil {
				t.Fatal(err)
			}
			_, err = s.Prune(t.Context(), PruneOptions{})
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "app:latest") || !strings.Contains(err.Error(), "sealer rmi") {
				t.Errorf("Prune: %v", err)
			}
			for _, l := range img.Layers {
				if has, err := s.HasBlob(t.Context(), l.Descriptors[0].Digest); !has || err != nil {
					t.Errorf("a blob of the damaged image is gone: %v", err)
				}
			}
			// Where the manifest can be read, its blobs are known, and others go.
			if has, _ := s.HasBlob(t.Context(), garbage.Digest); has != (name == "no manifest") {
				t.Errorf("garbage is there: %v", has)
			}
			if r, err := s.Remove(t.Context(), "other"); err != nil && name == "no manifest" || r == nil {
				t.Errorf("Remove the sound image: %+v, %v", r, err)
			}
			if _, err := s.Remove(t.Context(), "app"); err != nil {
				t.Errorf("Remove the damaged image: %v", err)
			}
			if _, err := s.Prune(t.Context(), PruneOptions{}); err != nil {
				t.Errorf("Prune without the damaged image: %v", err)
			}
		})
	}
}

// An index.json that lists nothing is damage, not an empty store.
func TestIndexWithoutAList(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"null", "{}", `{"manifests":null}`, "", "[]", `"x"`} {
		s := openTest(t, t.TempDir())
		if err := buildTest(t, s); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.path("image", ocispec.ImageIndexFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Prune(t.Context(), PruneOptions{}); !errors.Is(err, ErrInvalid) {
			t.Errorf("Prune with the index.json %q: %v", content, err)
		}
		if entries, err := os.ReadDir(s.path("image/blobs/sha256")); err != nil || len(entries) == 0 {
			t.Errorf("index.json %q: the blobs are gone: %v", content, err)
		}
	}
}

// Nobody but the owner looks into a store: images may hold secrets, and layers
// programs with setuid bits.
func TestStoreIsPrivate(t *testing.T) {
	t.Parallel()
	s := openTest(t, filepath.Join(t.TempDir(), "new", "store"))
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "image", "image/blobs", "image/blobs/sha256", "data", "data/overlay2", "tmp", "locks", "cache"} {
		if fi, err := os.Stat(s.path(dir)); err != nil || fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", dir, fi, err)
		}
	}
}
