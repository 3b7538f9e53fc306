package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// writeImages writes n images straight into the store: each with blobs of its own
// and those of its neighbours, and a config with text bytes of other fields.
func writeImages(t testing.TB, s *Store, n, blobs, text int) {
	t.Helper()
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	put := func(mediaType string, v any) ocispec.Descriptor {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(s.BlobPath(digest.FromBytes(b)), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
	}
	idx := newIndex()
	for i := range n {
		c := image.Config{Type: image.TypeAppInstaller, Platform: platform.Default(), Labels: map[string]string{"i": fmt.Sprint(i)}}
		for range text / 100 {
			c.Images = append(c.Images, image.MirroredImage{Digest: digest.FromString(fmt.Sprint(i)), Missing: "some text of a config"})
		}
		m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: put(image.MediaTypeConfig, c)}
		for j := range blobs {
			d := digest.FromString(fmt.Sprint(i*blobs/2 + j))
			m.Layers = append(m.Layers, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerZstd, Digest: d, Size: 1000})
		}
		name, err := ref.Parse(fmt.Sprintf("app:v%d", i))
		if err != nil {
			t.Fatal(err)
		}
		setName(idx, name.String(), put(ocispec.MediaTypeImageManifest, m), times{})
	}
	b, err := json.Marshal(idx)
	if err == nil {
		err = os.WriteFile(s.path("image", "index.json"), b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkStored is the processor time of work on a whole store, by its number of
// images: make bench-all. Each is done three times.
func BenchmarkStored(b *testing.B) {
	for _, n := range []int{10, 100, 1000, 3000} {
		b.Run(fmt.Sprintf("images=%d", n), func(b *testing.B) {
			s, err := Open(b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			writeImages(b, s, n, 100, 50_000)
			removed := 0
			for b.Loop() {
				stored(b, n, "list, first time", func() error {
					_ = os.Remove(s.path("image", "summaries"))
					_, err := s.Summaries(b.Context())
					return err
				})
				stored(b, n, "list", func() error { _, err := s.Summaries(b.Context()); return err })
				stored(b, n, "what images need, for prune", func() error {
					err := os.MkdirAll(s.path("tmp"), 0o700)
					_, bad := s.needed(b.Context())
					return errors.Join(err, bad)
				})
				stored(b, n, "remove one", func() error {
					_, err := s.Remove(b.Context(), fmt.Sprintf("app:v%d", removed))
					removed++
					return err
				})
			}
		})
	}
}

// stored measures one kind of work and notes the median.
func stored(b *testing.B, n int, name string, work func() error) {
	b.Helper()
	var took []float64
	for range 3 {
		before := figure.ProcessorTime()
		if err := work(); err != nil {
			b.Fatal(err)
		}
		took = append(took, float64((figure.ProcessorTime()-before).Microseconds())/1000)
	}
	slices.Sort(took)
	f := figure.Figure{Name: "stored/" + name, Value: took[1], Unit: "CPU ms", Low: took[0], High: took[2], Runs: 3, X: float64(n), XUnit: "images"}
	if err := figure.Add(f); err != nil {
		b.Error(err)
	}
}

// BenchmarkSummaries lists 3,000 images of 100 blobs and 50 kB of config.
func BenchmarkSummaries(b *testing.B) {
	s, err := Open(b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	writeImages(b, s, 3000, 100, 50_000)
	for _, cached := range []bool{false, true} {
		b.Run(fmt.Sprintf("cached=%v", cached), func(b *testing.B) {
			for b.Loop() {
				if !cached {
					_ = os.Remove(s.path("image", "summaries"))
				}
				if rows, err := s.Summaries(b.Context()); err != nil || len(rows) != 3000 {
					b.Fatalf("%d, %v", len(rows), err)
				}
			}
		})
	}
	b.Run("needed", func(b *testing.B) {
		for b.Loop() {
			if err := os.MkdirAll(s.path("tmp"), 0o700); err != nil {
				b.Fatal(err)
			}
			if _, err := s.needed(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	writeImages(t, s, 3, 4, 0)
	first, err := s.Summaries(t.Context())
	if err != nil || len(first) != 3 {
		t.Fatalf("%+v, %v", first, err)
	}
	// Neighbours share half of their blobs.
	for i, want := range []int64{2000, 0, 2000} {
		small := first[i].Size - 4000 // manifest and config
		if first[i].Own != want+small || first[i].Names[0] != fmt.Sprintf("docker.io/library/app:v%d", i) {
			t.Errorf("%+v", first[i])
		}
	}
	images, err := s.Images(t.Context())
	if err == nil || len(images) != 0 { // their layers are no layers: only the summary may be read
		t.Fatalf("%v, %v", images, err)
	}
	cache := s.path("image", "summaries")
	good, err := os.ReadFile(cache)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"as it is": good, "empty": {}, "cut": good[:len(good)/2], "other": bytes.ToUpper(good), "long": append(bytes.Clone(good), 1),
	} {
		if err := os.WriteFile(cache, b, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := s.Summaries(t.Context())
		if diff := cmp.Diff(first, again); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if b, err := os.ReadFile(cache); err != nil || len(b) != len(good) {
			t.Errorf("%s: the cache was not written again: %d bytes, %v", name, len(b), err)
		}
	}
	// An image goes, a manifest is lost.
	if _, err := s.Remove(t.Context(), "app:v1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.BlobPath(first[2].Descriptor.Digest)); err != nil {
		t.Fatal(err)
	}
	last, err := s.Summaries(t.Context())
	if err == nil || len(last) != 1 || last[0].Own != last[0].Size {
		t.Errorf("%+v, %v", last, err)
	}
}
