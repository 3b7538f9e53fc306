package store_test

import (
	"archive/tar"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/clusterimage/sealer/store"
)

// outside makes a store in a directory beside a file that no layer may reach.
func outside(t testing.TB) (*store.Store, func(t testing.TB)) {
	t.Helper()
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, filepath.Join(dir, "store"))
	return s, func(t testing.TB) {
		t.Helper()
		b, err := os.ReadFile(secret)
		fi, serr := os.Stat(secret)
		if err != nil || serr != nil || string(b) != "untouched" || fi.Mode().Perm() != 0o600 {
			t.Errorf("the file outside: %q, %v, %v", b, fi, err)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 2 {
			t.Errorf("beside the store: %v, %v", entries, err)
		}
	}
}

// TestHostileLayers writes layers that the package layer judges (TestHostileTar
// there): a refused one leaves nothing, and of the others verify finds no fault and
// rmi leaves nothing.
func TestHostileLayers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entries []entry
		want    error // nil: harmless
	}{
		"through a symlink": {[]entry{{name: "out", link: "../../../.."}, file("out/secret", "x")}, store.ErrInvalid},
		"device":            {[]entry{{name: "null", typ: tar.TypeChar}}, store.ErrInvalid},
		"twice":             {[]entry{file("a", "1"), file("a", "22"), {name: "a/"}, file("a/b", "x")}, nil},
		"unwritable":        {[]entry{{name: "a/", mode: 0o1}, file("a/b", "x")}, nil},
		"deep":              {[]entry{file(strings.Repeat("x/", 1000)+"x", "x")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, check := outside(t)
			l, err := s.WriteLayer(t.Context(), store.LayerOptions{}, writeTar(tc.entries...))
			if !errors.Is(err, tc.want) || (err != nil && tc.want == nil) {
				t.Errorf("WriteLayer: %v, want %v", err, tc.want)
			}
			check(t)
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
			if err != nil {
				return
			}
			if err := s.Commit(t.Context(), names(t, "a"), write(t, s, "amd64", l)); err != nil {
				t.Fatal(err)
			}
			if v, err := s.Verify(t.Context(), "a", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
				t.Errorf("Verify: %+v, %v", v, err)
			}
			if _, err := s.Remove(t.Context(), "a"); err != nil {
				t.Error(err)
			}
			if layers, err := os.ReadDir(filepath.Join(s.Root(), "data/overlay2")); err != nil || len(layers) > 0 {
				t.Errorf("%v, %v", layers, err)
			}
		})
	}
}

// A blob that unpacks to more than it should is refused before the disk fills.
func TestBomb(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	l := addLayer(t, from, file("zeros", string(make([]byte, 20<<20))))
	l.Size = 1 << 20 // what the config will say
	d := write(t, from, "amd64", l)
	if err := os.RemoveAll(from.LayerDir(l.ID)); err != nil {
		t.Fatal(err)
	}
	err := from.Commit(t.Context(), names(t, "a"), d)
	if !errors.Is(err, store.ErrInvalid) {
		t.Errorf("Commit: %v", err)
	}
	if left := temporaries(t, from); left != nil {
		t.Errorf("left: %v", left)
	}
}

// TestUnpackNeedsSpace commits an image whose layer has more bytes than any disk.
func TestUnpackNeedsSpace(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	l := addLayer(t, s, file("a", "x"))
	l.Size = 1 << 60 // what the config will say
	d := write(t, s, "amd64", l)
	if err := os.RemoveAll(s.LayerDir(l.ID)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), names(t, "a"), d); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Commit: %v, want %v", err, syscall.ENOSPC)
	}
	if left := temporaries(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}
