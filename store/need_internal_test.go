package store

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A need has every blob that a manifest names, however the manifest is written.
func TestNamedIn(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	config, layer, other := digest.FromString("config"), digest.FromString("layer"), digest.FromString("other")
	escaped := fmt.Sprintf("sha256:\\u00%x%s", layer.Encoded()[0], layer.Encoded()[1:])
	for name, tc := range map[string]struct {
		manifest string
		bad      bool
	}{
		"usual":    {manifest: `{"config":{"digest":"%[1]s","size":3},"layers":[{"digest":"%[2]s"}]}`},
		"reversed": {manifest: `{"layers":[{"digest":"%[2]s"}],"annotations":{"a":"sha256:"},"config":{"digest":"%[1]s","size":3}}`},
		"twice":    {manifest: `{"config":{"digest":"%[3]s"},"layers":[{"digest":"%[2]s"}],"config":{"digest":"%[1]s","size":3}}`},
		"capitals": {manifest: `{"Config":{"Digest":"%[1]s","size":3},"LAYERS":[{"digest":"%[2]s"}]}`},
		"escaped":  {manifest: `{"config":{"digest":"%[1]s","size":3},"layers":[{"digest":"` + escaped + `"}]}`},
		"no JSON":  {manifest: `{"layers":["%[2]s"],`, bad: true},
		"nothing":  {manifest: ``, bad: true},
	} {
		b := fmt.Appendf(nil, tc.manifest, config, layer, other)
		if name == "nothing" {
			b = nil
		}
		desc := ocispec.Descriptor{Digest: digest.FromBytes(b), Size: int64(len(b))}
		if err := s.PutBlob(t.Context(), desc, func(w io.Writer) error { _, err := w.Write(b); return err }); err != nil {
			t.Fatal(err)
		}
		blobs := map[digest.Digest]bool{}
		got, err := s.namedIn(t.Context(), desc, blobs)
		if tc.bad {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || got.Digest != config || got.Size != 3 || !blobs[desc.Digest] || !blobs[config] || !blobs[layer] {
			t.Errorf("%s: %+v, %v, %v", name, got, blobs, err)
		}
	}
}

// BenchmarkRemove removes one of 3,000 images.
func BenchmarkRemove(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	writeImages(b, s, 3000, 100, 50_000)
	i := 0
	for b.Loop() {
		if _, err := s.Remove(b.Context(), fmt.Sprintf("app:v%d", i)); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// Several images go in one change with one prune; a name that is not there, or that
// an earlier one took, fails alone.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	writeImages(t, s, 4, 3, 100)
	pruned := 0
	out := s.RemoveAll(t.Context(), []string{"app:v0", "none:v1", "app:v2", "app:v2"})
	for i, want := range []bool{true, false, true, false} {
		if (out[i].ID != "") != want || errors.Is(out[i].Err, ErrNotFound) == want {
			t.Errorf("%d: %+v", i, out[i])
		}
		if len(out[i].Pruned.Items) > 0 {
			pruned++
		}
	}
	if pruned != 1 || len(out[2].Pruned.Items) < 2 {
		t.Errorf("%d prunes: %+v", pruned, out[2].Pruned)
	}
	list, err := s.List()
	if err != nil || len(list) != 2 {
		t.Errorf("%d images are left: %v", len(list), err)
	}
	if again, err := s.Prune(t.Context(), PruneOptions{}); err != nil || len(again.Items) > 0 {
		t.Errorf("garbage is left: %+v, %v", again, err)
	}
}
