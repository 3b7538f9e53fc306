package store_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// overwrite changes a file though it is read-only, in place: its hard links
// change too.
func overwrite(t testing.TB, path, content string) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyAndRepair(t *testing.T) {
	t.Parallel()
	good := open(t, t.TempDir())
	commit(t, good, "a", "one")
	img, err := good.Image(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	rootfs, reg := img.Layers[0].ID, img.Layers[1].ID
	mirrored := img.Documents[0].Blobs[0].Digest
	for name, damage := range map[string]func(s *store.Store) error{
		"blob changed": func(s *store.Store) error { overwrite(t, s.BlobPath(mirrored), "manifest two"); return nil },
		"blob cut":     func(s *store.Store) error { overwrite(t, s.BlobPath(mirrored), ""); return nil },
		"blob gone":    func(s *store.Store) error { return os.Remove(s.BlobPath(mirrored)) },
		"layer blob":   func(s *store.Store) error { return os.Remove(s.BlobPath(img.Layers[0].Descriptors[0].Digest)) },
		"config":       func(s *store.Store) error { overwrite(t, s.BlobPath(img.Manifest.Config.Digest), "{}"); return nil },
		"manifest":     func(s *store.Store) error { return os.Remove(s.BlobPath(img.Descriptor.Digest)) },
		"document":     func(s *store.Store) error { overwrite(t, s.BlobPath(reg), "{}"); return nil },
		"file changed": func(s *store.Store) error { overwrite(t, s.LayerDir(rootfs)+"/etc/a", "two"); return nil },
		"file gone":    func(s *store.Store) error { return os.Remove(s.LayerDir(rootfs) + "/etc/a") },
		"file more":    func(s *store.Store) error { return os.WriteFile(s.LayerDir(rootfs)+"/etc/b", nil, 0o600) },
		"layer gone":   func(s *store.Store) error { return os.RemoveAll(s.LayerDir(rootfs)) },
		"tree gone":    func(s *store.Store) error { return os.RemoveAll(s.LayerDir(reg)) },
		"tag link changed": func(s *store.Store) error {
			return os.WriteFile(filepath.Join(s.LayerDir(reg), tree.Root, tree.TagPath("library/nginx", "v1")), []byte("sha256:0"), 0o600)
		},
		"tree's blob is another file": func(s *store.Store) error {
			p := filepath.Join(s.LayerDir(reg), tree.Root, tree.BlobPath(mirrored))
			return errors.Join(os.Remove(p), os.WriteFile(p, []byte("manifest one"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			commit(t, s, "a", "one")
			if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 || v.Blobs != 5 || v.Layers != 2 {
				t.Fatalf("before: %+v, %v", v, err)
			}
			if err := damage(s); err != nil {
				t.Fatal(err)
			}
			v, err := s.Verify(t.Context(), "a", store.VerifyOptions{})
			if err != nil || len(v.Broken()) == 0 {
				t.Fatalf("not seen: %+v, %v", v, err)
			}
			lost := errors.New("no such blob upstream")
			v, err = s.Verify(t.Context(), "a", store.VerifyOptions{Repair: func(context.Context, ocispec.Descriptor, io.Writer) error { return lost }})
			if err != nil {
				t.Fatal(err)
			}
			if b := v.Broken(); len(b) > 0 && !errors.Is(b[0].Err, lost) {
				t.Fatalf("repair failed: %+v", v)
			}
			v, err = s.Verify(t.Context(), "a", store.VerifyOptions{Repair: func(ctx context.Context, d ocispec.Descriptor, w io.Writer) error {
				f, err := good.OpenBlob(ctx, d.Digest)
				if err != nil {
					return err
				}
				defer f.Close()
				_, err = io.Copy(w, f)
				return err
			}})
			if err != nil || len(v.Broken()) > 0 {
				t.Fatalf("repair: %+v, %v", v, err)
			}
			if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
				t.Errorf("after: %+v, %v", v, err)
			}
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}
