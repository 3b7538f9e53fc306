package store_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/store"
)

// A layer that is made with the help of one that is alike is the layer that is
// made without, whatever became of the other one.
func TestWriteLayerLike(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 9<<20) // some pieces that do not shrink
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	text := strings.Repeat("some text that repeats ", 400_000)
	script := file("script", "#!/bin/sh\n")
	was := []entry{
		file("a/changed", strings.Repeat("1", 100_000)), file("b/noise", string(noise)), file("c/text", text),
		script, file("longer", "abc"), {name: "link", link: "script"}, file("becomes-link", "script"), file("z/zeros", string(make([]byte, 5<<20))),
	}
	was = append(was, file("twice", "1"), file("twice", "2"))
	now := append([]entry{}, was...)
	now[0] = file("a/changed", strings.Repeat("1", 99_999)+"2")
	now[3].mode = 0o755
	now[4] = file("longer", "abcd")
	now[5] = file("link", "#!/bin/sh\n")
	now[6] = entry{name: "becomes-link", link: "script"}

	fresh := open(t, t.TempDir())
	want, err := fresh.WriteLayer(t.Context(), store.LayerOptions{}, writeTar(now...))
	if err != nil {
		t.Fatal(err)
	}
	files := content(t, os.DirFS(fresh.LayerDir(want.ID)))

	for name, spoil := range map[string]func(t *testing.T, s *store.Store, like *image.Layer){
		"whole": func(*testing.T, *store.Store, *image.Layer) {},
		"gone": func(_ *testing.T, _ *store.Store, like *image.Layer) {
			like.ID, like.Descriptors[0].Digest = want.ID, want.ID
		},
		"broken blob": spoilBlob(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
		"no blob":     spoilBlob(func([]byte) []byte { return bytes.Repeat([]byte("text"), 10_000) }),
		"short blob":  spoilBlob(func(b []byte) []byte { return b[:len(b)/3] }),
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
			if diff := cmp.Diff(files, content(t, os.DirFS(s.LayerDir(got.ID)))); diff != "" {
				t.Error("its files differ")
			}
			for file, same := range map[string]bool{"b/noise": name != "gone", "c/text": name != "gone", "a/changed": false, "script": false, "longer": false} {
				if is := sameFile(t, filepath.Join(before, file), filepath.Join(s.LayerDir(got.ID), file)); is != same {
					t.Errorf("%s is one file in both: %v", file, is)
				}
			}
			if fi, err := os.Stat(filepath.Join(before, "script")); err != nil || fi.Mode().Perm() != 0o644 {
				t.Errorf("the other layer's script is now %v, %v", fi.Mode(), err)
			}
			if b, err := os.ReadFile(filepath.Join(before, "a/changed")); err != nil || strings.Contains(string(b), "2") {
				t.Errorf("the other layer has changed: %v", err)
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
