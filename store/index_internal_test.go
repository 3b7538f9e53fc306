package store

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/sign"
)

// A file whose content is there already is not written again: each write is a flush.
func TestReplaceFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	path := s.path("image", "file")
	write := func(content string) os.FileInfo {
		t.Helper()
		if err := s.replaceFile(t.Context(), path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != content {
			t.Fatalf("%q, %v", b, err)
		}
		return fi
	}
	first := write("one")
	if !os.SameFile(first, write("one")) {
		t.Error("equal content was written again")
	}
	if os.SameFile(first, write("two")) {
		t.Error("the file was changed in its place, where a reader may be")
	}
}

// An image keeps its times and signatures when it gets a name, comes again, or is
// built again, and other images keep theirs.
func TestSetName(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	desc := func(s string) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString(s), Size: 1}
	}
	signed := func(d ocispec.Descriptor, by string) ocispec.Descriptor {
		if err := addSignatures(&d, []sign.Signature{{Payload: []byte("{}"), Signature: by}}); err != nil {
			t.Fatal(err)
		}
		return d
	}
	type line struct {
		Name, Built, Added string
		Digest             digest.Digest
		By                 []string
	}
	idx := newIndex()
	check := func(step string, want ...line) {
		t.Helper()
		var got []line
		for _, d := range idx.Manifests {
			times := timesOf(d)
			l := line{Name: nameOf(d), Added: times.added.Format("15"), Digest: d.Digest}
			if !times.built.IsZero() {
				l.Built = times.built.Format("15")
			}
			list, err := signaturesIn(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range list {
				l.By = append(l.By, s.Signature)
			}
			got = append(got, l)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	a, b := desc("a"), desc("b")
	setName(idx, "", signed(a, "alice"), times{added: at(1)})
	setName(idx, "b", b, times{built: at(2), added: at(2)})
	check("two images", line{Added: "01", Digest: a.Digest, By: []string{"alice"}}, line{Name: "b", Built: "02", Added: "02", Digest: b.Digest})
	setName(idx, "", signed(a, "bob"), times{added: at(3)})
	check("a comes again", line{Added: "01", Digest: a.Digest, By: []string{"alice", "bob"}}, line{Name: "b", Built: "02", Added: "02", Digest: b.Digest})
	setName(idx, "a", a, times{built: at(4), added: at(4)})
	check("a is built here, with a name",
		line{Name: "b", Built: "02", Added: "02", Digest: b.Digest}, line{Name: "a", Built: "04", Added: "01", Digest: a.Digest, By: []string{"alice", "bob"}})
	setName(idx, "c", b, times{built: at(5), added: at(5)})
	setName(idx, "a", b, times{built: at(5), added: at(5)})
	check("b takes the name of a",
		line{Name: "b", Built: "02", Added: "02", Digest: b.Digest}, line{Name: "c", Built: "02", Added: "02", Digest: b.Digest}, line{Name: "a", Built: "02", Added: "02", Digest: b.Digest})
}

// An image is told by its first name, or by its ID where it has none.
func TestNameOfAListedImage(t *testing.T) {
	t.Parallel()
	l := Listed{Descriptor: ocispec.Descriptor{Digest: digest.FromString("a")}}
	if got := l.name(); got != digest.FromString("a").Encoded() {
		t.Errorf("without a name: %s", got)
	}
	l.Names = []string{"docker.io/library/a:v1", "docker.io/library/b:v1"}
	if got := l.name(); got != "docker.io/library/a:v1" {
		t.Errorf("with two: %s", got)
	}
}

// The file of the index is another one after each change.
func TestIndexInfo(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if fi := s.IndexInfo(); fi != nil {
		t.Errorf("of an empty store: %v", fi)
	}
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	first := s.IndexInfo()
	if first == nil {
		t.Fatal("none after a commit")
	}
	if _, err := s.Remove(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	if now := s.IndexInfo(); now == nil || os.SameFile(first, now) {
		t.Errorf("after a removal: %v", now)
	}
}
