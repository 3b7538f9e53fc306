package store_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
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

func TestWriteLayerIsHostile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		entries []entry
		want    error // nil: harmless
	}{
		"dot dot":                   {[]entry{file("../../secret", "x")}, store.ErrInvalid},
		"dot dot inside":            {[]entry{file("a/../../secret", "x")}, store.ErrInvalid},
		"absolute":                  {[]entry{file("/etc/x", "x")}, nil},
		"through a symlink":         {[]entry{{name: "out", link: "../../../.."}, file("out/secret", "x")}, store.ErrInvalid},
		"through an absolute link":  {[]entry{{name: "out", link: "/tmp"}, file("out/secret", "x")}, store.ErrInvalid},
		"through two symlinks":      {[]entry{{name: "a", link: "b/.."}, {name: "b", link: ".."}, file("a/secret", "x")}, store.ErrInvalid},
		"onto a symlink":            {[]entry{{name: "out", link: "../../../../secret"}, file("out", "x")}, nil},
		"directory onto a symlink":  {[]entry{{name: "out", link: "/tmp"}, {name: "out/"}, file("out/x", "x")}, nil},
		"hard link out":             {[]entry{{name: "l", hard: "../../../../secret"}}, store.ErrInvalid},
		"hard link through a link":  {[]entry{{name: "out", link: "../../../.."}, {name: "l", hard: "out/secret"}}, store.ErrInvalid},
		"hard link to a symlink":    {[]entry{{name: "out", link: "../../../../secret"}, {name: "l", hard: "out"}, {name: "l", content: "x"}}, nil},
		"hard link to nothing":      {[]entry{{name: "l", hard: "nothing"}}, store.ErrInvalid},
		"hard link to itself alone": {[]entry{{name: "a", hard: "a"}}, store.ErrInvalid},
		"directory into file":       {[]entry{{name: "d/", mode: 0o700}, file("d/x", "x"), {name: "d", content: "y", mode: 0o600}}, nil},
		"directory into link":       {[]entry{{name: "d/", mode: 0o700}, file("x", "x"), {name: "d", link: "x"}}, nil},
		"hard link to itself":       {[]entry{file("a", "x"), {name: "a", hard: "a"}}, nil},
		"mode through a symlink":    {[]entry{{name: "out", link: "../../../../secret", mode: 0o777}}, nil},
		"device":                    {[]entry{{name: "null", typ: tar.TypeChar}}, store.ErrInvalid},
		"block device":              {[]entry{{name: "disk", typ: tar.TypeBlock}}, store.ErrInvalid},
		"fifo":                      {[]entry{{name: "fifo", typ: tar.TypeFifo}}, store.ErrInvalid},
		"unknown type":              {[]entry{{name: "x", typ: 'Z'}}, store.ErrInvalid},
		"the root as a file":        {[]entry{file(".", "")}, store.ErrInvalid},
		"the root as a link":        {[]entry{{name: ".", link: "/tmp"}}, store.ErrInvalid},
		"a file as a directory":     {[]entry{file("a", "x"), file("a/b", "x")}, store.ErrInvalid},
		"long name":                 {[]entry{file(string(bytes.Repeat([]byte("x"), 300)), "x")}, store.ErrInvalid},
		"deep":                      {[]entry{file(string(bytes.Repeat([]byte("x/"), 1000))+"x", "x")}, nil},
		"twice":                     {[]entry{file("a", "1"), file("a", "22"), {name: "a/"}, file("a/b", "x")}, nil},
		"whiteout of dot dot":       {[]entry{file("a/.wh...", "")}, store.ErrInvalid},
		"whiteout of nothing":       {[]entry{file(".wh.", "")}, store.ErrInvalid},
		"whiteout as a link":        {[]entry{{name: ".wh.a", link: "/tmp"}}, nil},
		"aufs":                      {[]entry{{name: ".wh..wh.plnk/"}, file(".wh..wh.aufs", "")}, nil},
		"unwritable":                {[]entry{{name: "a/", mode: 0o1}, file("a/b", "x")}, nil},
		"setuid":                    {[]entry{{name: "su", content: "x", mode: 0o4755}}, nil},
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
			// What was unpacked is what verify wants, and can be removed.
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
// TestDeep unpacks a directory that lies deeper than the kernel's paths reach,
// and with no entry for what is above it. With time that grows faster than the
// depth it would not end.
func TestDeep(t *testing.T) {
	t.Parallel()
	s, _ := outside(t)
	name := strings.Repeat("d/", 2500) + "file"
	l, err := s.WriteLayer(t.Context(), store.LayerOptions{}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		return errors.Join(tw.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}), tw.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(s.LayerDir(l.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.Stat(name); err != nil {
		t.Error(err)
	}
}

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
