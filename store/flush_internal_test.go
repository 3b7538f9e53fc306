package store

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A flush is for the sessions of dead processes, too: it removes all of their
// records. One with nothing to do leaves the disk alone.
func TestFlushOfDeadSessions(t *testing.T) {
	t.Parallel()
	d := &disk{}
	s := d.under(openTest(t, t.TempDir()))
	if _, err := s.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.flush(t.Context()); err != nil || d.flushes != 0 {
		t.Errorf("nothing was written, and it flushed %d times: %v", d.flushes, err)
	}
	var records []string
	for _, name := range []string{"one", "two", "three"} {
		records = append(records, leaveRecord(t, s, name, bootID(), string(digest.FromString(name))))
	}
	if err := s.flush(t.Context()); err != nil || d.flushes != 1 {
		t.Errorf("%d flushes, %v", d.flushes, err)
	}
	for _, name := range records {
		if there(t, name) {
			t.Errorf("%s is left", name)
		}
	}
}

// After a failed flush content that the disk has is not written again, and both
// files of the index are: their names may be lost.
func TestMendLeavesSoundContent(t *testing.T) {
	t.Parallel()
	d := &disk{failing: true}
	s := d.under(openTest(t, t.TempDir()))
	if err := buildTest(t, s); err == nil {
		t.Fatal("Commit with a failing disk")
	}
	d.failing = false
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	sound := digest.FromBytes(mirrored())
	stat := func(path string) os.FileInfo {
		t.Helper()
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	index, layout := s.path("image", ocispec.ImageIndexFile), s.path("image", ocispec.ImageLayoutFile)
	blob, names := stat(s.BlobPath(sound)), []os.FileInfo{stat(index), stat(layout)}
	s.failed(nil)
	if err := s.mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !sameBlobFile(t, s, sound, blob) {
		t.Error("a sound blob was written again")
	}
	for i, path := range []string{index, layout} {
		if os.SameFile(names[i], stat(path)) {
			t.Errorf("%s was not written again", path)
		}
	}
	verifyTest(t, s)
}

// Layers that a power failure may have taken go with all copies that overlayfs has
// of layers.
func TestDropLayers(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	img := builtImage(t, s)
	var paths []string
	for _, id := range img.LayerIDs() {
		paths = append(paths, s.LayerDir(id))
	}
	for _, userxattr := range []bool{false, true} {
		dir := s.path(overlayDir(userxattr), "copy")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, dir)
	}
	if err := s.dropLayers(append([]digest.Digest{digest.FromString("not here")}, img.LayerIDs()...)); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if there(t, path) {
			t.Errorf("%s is left", path)
		}
	}
}

// What cannot be moved out of its place is an error of prune.
func TestTakeOfNothing(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"layer", "blob"} {
		if err := s.take(Garbage{Kind: kind, Path: s.path("data", "overlay2", "none")}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if left, err := os.ReadDir(s.path("tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// The size that a config gives a layer is compared with the files of a layer that
// was there before, unless the image is there, too.
func TestSizesOfLayersThatAreThere(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := openTest(t, root)
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	for _, again := range []bool{false, true} { // the store that has unpacked the layers knows their sizes
		for _, tc := range []struct {
			size  int64
			known bool
			good  bool
		}{{8000, false, true}, {0, false, true}, {7999, false, false}, {8001, false, false}, {1 << 20, false, false}, {7999, true, true}} {
			if again {
				s = openTest(t, root)
			}
			img, err := s.Image(t.Context(), "app", nil)
			if err != nil {
				t.Fatal(err)
			}
			entry := ocispec.Descriptor{Digest: digest.FromString("another image")}
			if tc.known {
				entry = img.Descriptor
			}
			img.Layers[0].Size = tc.size
			if err := s.checkSizes(t.Context(), entry, img); (err == nil) != tc.good {
				t.Errorf("%d bytes, again %v, known %v: %v", tc.size, again, tc.known, err)
			}
		}
	}
}

// A manifest may leave out its media type, and may not say another than its
// descriptor: a reader of the one would take it for something else.
func TestMediaTypeOfAManifest(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	img := builtImage(t, s)
	for says, good := range map[string]bool{"": true, ocispec.MediaTypeImageManifest: true, ocispec.MediaTypeImageIndex: false} {
		m := img.Manifest
		m.MediaType = says
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.putBytes(t.Context(), ocispec.MediaTypeImageManifest, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.readImage(t.Context(), d); (err == nil) != good || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// A document may have as many bytes as its limit.
func TestLimitOfADocument(t *testing.T) {
	t.Parallel()
	doc := mirroredImages(t, openTest(t, t.TempDir()), 0, 2)
	b, _, err := doc.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for most, good := range map[int64]bool{int64(len(b)): true, int64(len(b)) - 1: false} {
		s, err := Open(t.TempDir(), Options{Limits: Limits{Document: most}})
		if err != nil {
			t.Fatal(err)
		}
		doc := mirroredImages(t, s, 0, 2)
		if _, err := s.WriteRegistryLayer(t.Context(), doc); (err == nil) != good || err != nil && !errors.Is(err, ErrLimit) {
			t.Errorf("%d of %d bytes: %v", len(b), most, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
