package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// caches returns a cache of three images, of which neighbours share a blob.
func caches() *summaryCache {
	k := newSummaryCache()
	for i := range 3 {
		var p cachedPlatform
		for _, name := range []int{i, i + 1} {
			p.Blobs = append(p.Blobs, k.blob(ocispec.Descriptor{Digest: digest.FromString(fmt.Sprint(name)), Size: int64(name + 1)}))
		}
		k.Images[digest.FromString(fmt.Sprint("image ", i))] = cachedImage{p}
	}
	return k
}

// blobsOf returns the digests and sizes that an image of k names.
func blobsOf(k *summaryCache, image string) []string {
	var out []string
	for _, p := range k.Images[digest.FromString(image)] {
		for _, b := range p.Blobs {
			out = append(out, fmt.Sprint(k.Blobs[b].digest(), k.Blobs[b].Size))
		}
	}
	return out
}

// Images that are gone take their blobs out of the cache, and the rest keep theirs.
func TestCacheOfThoseThatAreHere(t *testing.T) {
	t.Parallel()
	before := caches()
	want := map[string][]string{}
	for i := range 3 {
		name := fmt.Sprint("image ", i)
		want[name] = blobsOf(before, name)
	}
	after := caches().only(map[digest.Digest]bool{digest.FromString("image 1"): true, digest.FromString("image 2"): true})
	if len(after.Images) != 2 || len(after.Blobs) != 3 {
		t.Errorf("%d images, %d blobs", len(after.Images), len(after.Blobs))
	}
	for _, name := range []string{"image 1", "image 2"} {
		if diff := cmp.Diff(want[name], blobsOf(after, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if n := after.blob(ocispec.Descriptor{Digest: digest.FromString("1"), Size: 2}); int(n) >= 3 {
		t.Errorf("a blob that is there has the new number %d", n)
	}
}

// A cache that is as it was written is used. One of another version, one whose
// images name blobs that it lacks, and one that is no gob is not.
func TestReadSummaries(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	beyond, last, older := caches(), caches(), caches()
	beyond.Images[digest.FromString("image 0")][0].Blobs[1] = uint32(len(beyond.Blobs))
	last.Images[digest.FromString("image 0")][0].Blobs[1] = uint32(len(last.Blobs) - 1)
	older.Version--
	for name, tc := range map[string]struct {
		cache *summaryCache
		used  bool
	}{
		"good": {caches(), true}, "names the last blob": {last, true}, "names a blob beyond": {beyond, false}, "older": {older, false},
	} {
		if err := s.writeSummaries(t.Context(), tc.cache); err != nil {
			t.Fatal(err)
		}
		want := newSummaryCache()
		if tc.used {
			want = tc.cache
		}
		if diff := cmp.Diff(want, s.readSummaries(), cmp.AllowUnexported(), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".numbers" }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// The checksum is right, and the rest is no cache.
	var half bytes.Buffer
	if err := gob.NewEncoder(&half).Encode(caches()); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "no gob", half.String()[:half.Len()/2]} {
		sum := sha256.Sum256([]byte(content))
		if err := os.WriteFile(s.path("image", "summaries"), append(sum[:], content...), 0o600); err != nil {
			t.Fatal(err)
		}
		if k := s.readSummaries(); len(k.Images) != 0 || len(k.Blobs) != 0 || k.Version != summaryVersion {
			t.Errorf("%q is taken for a cache: %+v", content, k)
		}
	}
}

// A manifest of an index that the store lacks has no line.
func TestSummariesWithoutAPlatform(t *testing.T) {
	t.Parallel()
	k := caches()
	k.Images[digest.FromString("image 0")] = append(k.Images[digest.FromString("image 0")], cachedPlatform{Manifest: digest.FromString("not here")})
	rows := []summaryRow{{Listed{Descriptor: ocispec.Descriptor{Digest: digest.FromString("image 0")}}, k.Images[digest.FromString("image 0")]}}
	got := k.summaries(rows)
	if len(got) != 1 || got[0].Size != 3 || got[0].Own != 3 {
		t.Errorf("%+v", got)
	}
}

// A listing after an image has gone drops it from the cache, and a listing without a
// change does not write the cache.
func TestSummariesFollowTheIndex(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	writeImages(t, s, 3, 4, 0)
	list := func(want int) os.FileInfo {
		t.Helper()
		rows, err := s.Summaries(t.Context())
		if err != nil || len(rows) != want {
			t.Fatalf("%d rows, %v", len(rows), err)
		}
		if k := s.readSummaries(); len(k.Images) != want {
			t.Errorf("%d images in the cache, want %d", len(k.Images), want)
		}
		fi, err := os.Stat(s.path("image", "summaries"))
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	first := list(3)
	if !os.SameFile(first, list(3)) {
		t.Error("the cache was written without a change")
	}
	if _, err := s.Remove(t.Context(), "app:v1"); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(first, list(2)) {
		t.Error("the cache still has an image that is gone")
	}
}

// Bytes of a blob that two images share are neither's own, wherever they stand in
// the list.
func TestOwnBytes(t *testing.T) {
	t.Parallel()
	k := caches()
	var rows []summaryRow
	for i := range 3 {
		id := digest.FromString(fmt.Sprint("image ", i))
		rows = append(rows, summaryRow{Listed{Descriptor: ocispec.Descriptor{Digest: id}}, k.Images[id]})
	}
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {0, 2, 1}} {
		var in []summaryRow
		for _, i := range order {
			in = append(in, rows[i])
		}
		for n, line := range k.summaries(in) {
			i := order[n]
			size, own := int64(2*i+3), []int64{1, 0, 4}[i] // image i has the blobs i and i+1, of i+1 and i+2 bytes
			if line.Size != size || line.Own != own {
				t.Errorf("order %v: image %d has %d bytes, %d its own; want %d, %d", order, i, line.Size, line.Own, size, own)
			}
		}
	}
}
