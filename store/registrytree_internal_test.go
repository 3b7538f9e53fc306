package store

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/tree"
)

// mirroredImages returns a document of images with one blob each, whose names are
// the numbers from first on. The blobs are in the store.
func mirroredImages(t *testing.T, s *Store, first, n int) *tree.Document {
	t.Helper()
	doc := &tree.Document{SchemaVersion: 1}
	for i := first; i < first+n; i++ {
		name := fmt.Sprintf("app-%03d", i)
		d, err := s.putBytes(t.Context(), tree.MediaTypeBlob, []byte("manifest "+name))
		if err != nil {
			t.Fatal(err)
		}
		doc.Repositories = append(doc.Repositories, tree.Repository{
			Name: name, Tags: []tree.Tag{{Name: "v1", Digest: d.Digest}},
			Revisions: []tree.Revision{{Digest: d.Digest, MediaType: ocispec.MediaTypeImageManifest, Size: d.Size}},
		})
		doc.Blobs = append(doc.Blobs, tree.Blob{Digest: d.Digest, Size: d.Size})
	}
	return doc
}

// The tree of a registry layer is written unless it is large and most of its blobs
// are in other trees; it is written then when files are needed.
func TestWhichTreesAreWritten(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	write := func(doc *tree.Document) (id digest.Digest, written bool) {
		t.Helper()
		l, err := s.WriteRegistryLayer(t.Context(), doc)
		if err != nil {
			t.Fatal(err)
		}
		if !s.HasTree(l.ID, doc) {
			t.Error("HasTree of what was written: false")
		}
		if written = s.hasLayer(l.ID); written == s.IsUnwritten(l.ID) {
			t.Errorf("hasLayer and IsUnwritten are both %v", written)
		}
		return l.ID, written
	}
	all := mirroredImages(t, s, 0, 100)
	if all.Weight() <= writtenAlways {
		t.Fatalf("weight %d", all.Weight())
	}
	if _, written := write(all); !written {
		t.Error("the first layer is not written")
	}
	if _, written := write(mirroredImages(t, s, 10, 2)); !written {
		t.Error("a small one is not written")
	}
	if _, written := write(mirroredImages(t, s, 50, 100)); !written {
		t.Error("one with half of its blobs elsewhere is not written")
	}
	doc := mirroredImages(t, s, 199, 3)
	doc.Repositories = append(mirroredImages(t, s, 60, 97).Repositories, doc.Repositories...)
	doc.Blobs = append(mirroredImages(t, s, 60, 97).Blobs, doc.Blobs...)
	id, written := write(doc)
	if written {
		t.Error("one with most of its blobs elsewhere is written")
	}
	if got, err := s.Document(t.Context(), id); err != nil || len(got.Blobs) != 100 {
		t.Errorf("its document: %v, %v", got, err)
	}
	want, got := map[digest.Digest]bool{id: true}, map[digest.Digest]bool{}
	for _, b := range doc.Blobs {
		want[b.Digest] = true
	}
	if err := s.linked(t.Context(), id, got); err != nil || !maps.Equal(got, want) {
		t.Errorf("it links to %d blobs, want %d: %v", len(got), len(want), err)
	}
	lost := doc.Blobs[99].Digest
	content, err := os.ReadFile(s.BlobPath(lost))
	if err := errors.Join(err, os.Remove(s.BlobPath(lost))); err != nil {
		t.Fatal(err)
	}
	if s.HasTree(id, doc) {
		t.Error("HasTree without a blob: true")
	}
	if _, err := s.Tree(t.Context(), id); err == nil {
		t.Error("a tree was written without a blob")
	}
	if _, err := s.putBytes(t.Context(), tree.MediaTypeBlob, content); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		dir, err := s.Tree(t.Context(), id)
		if err != nil || dir != s.LayerDir(id) || !tree.Present(dir, doc) || s.IsUnwritten(id) {
			t.Errorf("Tree: %s, %v", dir, err)
		}
	}
	clear(got)
	if err := s.linked(t.Context(), id, got); err != nil || !maps.Equal(got, want) {
		t.Errorf("written, it links to %d blobs, want %d: %v", len(got), len(want), err)
	}
}

// A digest that is no registry layer's has neither a document nor a tree.
func TestNoRegistryLayer(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	plain, err := s.WriteLayer(t.Context(), LayerOptions{Compression: layer.CompressionNone}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		return errors.Join(tw.WriteHeader(&tar.Header{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}), tw.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := layer.Remove(s.LayerDir(plain.ID)); err != nil {
		t.Fatal(err)
	}
	short, err := s.putBytes(t.Context(), tree.MediaTypeBlob, []byte(documentBegins[:10]))
	if err != nil {
		t.Fatal(err)
	}
	for name, id := range map[string]digest.Digest{"nothing": digest.FromString("nothing"), "a tar": plain.ID, "a short blob": short.Digest} {
		if _, err := s.Document(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: document: %v", name, err)
		}
		if _, err := s.Tree(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: tree: %v", name, err)
		}
		if s.IsUnwritten(id) {
			t.Errorf("%s: it is taken for a layer without a tree", name)
		}
	}
}

// Digests are found wherever they stand, to the last byte, and nothing shorter is one.
func TestEachDigest(t *testing.T) {
	t.Parallel()
	a, b := digest.FromString("a"), digest.FromString("b")
	for in, want := range map[string][]digest.Digest{
		string(a):      {a},
		string(a)[:70]: nil,
		"":             nil,
		`{"x":"` + string(a) + `","y":"sha256:"}`: {a},
		string(a) + string(b):                     {a, b},
		"sha256:" + string(a):                     {digest.Digest(("sha256:" + string(a))[:71]), a},
		"  " + string(b) + " " + string(a) + "\n": {b, a},
	} {
		var got []digest.Digest
		eachDigest([]byte(in), func(d digest.Digest) { got = append(got, d) })
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// A field of a JSON object is the last one of its name, as encoding/json has it,
// however the name is written; nothing after the only one is read.
func TestField(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"layers":["a"]}`:                         "[a]",
		`{"x":{"y":[1,2]},"layers":["a"],BROKEN`:   "[a]",
		`{"layers":["a"],"layers":["b"]}`:          "[b]",
		`{"\u006cayers":["c"]}`:                    "[c]",
		`{"layers":["a"],"\u006cayers":["c"]}`:     "[c]",
		`{"other":"\n"}`:                           "[]",
		`{"other":1}`:                              "[]",
		`{"x":["layers"],"layers":["a"]}`:          "[a]",
		`{"x":"layers","y":"layers","layers":[]}`:  "[]",
		`{"layers":[1]}`:                           "error",
		`{"\u006cayers":["c"]`:                     "error",
		`{"x":1,`:                                  "error",
		``:                                         "error",
		`{"layers":["a"],"layers":["b"]`:           "error",
		`{"x":"\u006c","layers":{"not":"a list"}}`: "error",
	} {
		got := []string{}
		err := field([]byte(in), "layers", &got)
		text := fmt.Sprint(got)
		if err != nil {
			text = "error"
		}
		if text != want {
			t.Errorf("%s: %s, want %s (%v)", in, text, want, err)
		}
	}
}
