package store

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A lock that another process has names that process; this process's own locks are
// no reason to wait.
func TestExclusiveHolder(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	lock, err := s.lock(t.Context(), "store", true)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if h, locked := s.exclusive("store"); !locked || h.PID != os.Getpid() {
		t.Errorf("its own lock: %+v, %v", h, locked)
	}
	if got := s.holders(); got != "another process" {
		t.Errorf("it waits for itself: %s", got)
	}
	if _, err := lock.WriteAt([]byte(`{"pid":1,"command":"sealer prune"}`+"\n     "), 0); err != nil {
		t.Fatal(err)
	}
	if got := s.holders(); got != "process 1 (sealer prune)" {
		t.Errorf("holders: %s", got)
	}
	// Half a line, as of a process that is just writing it, names nobody.
	if err := lock.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if h, locked := s.exclusive("store"); locked {
		t.Errorf("half a holder: %+v", h)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if h, locked := s.exclusive("store"); locked {
		t.Errorf("a free lock is held by %+v", h)
	}
}

// A file that its holder removed before it let go is not taken: another process
// would make the name anew, and two would hold it.
func TestClaimAfterRemoval(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	never := func() bool { return false }
	first, err := s.claim(t.Context(), "blob", never)
	if err != nil {
		t.Fatal(err)
	}
	type claimed struct {
		f   *os.File
		err error
	}
	second := make(chan claimed)
	go func() {
		f, err := s.claim(context.WithoutCancel(t.Context()), "blob", never)
		second <- claimed{f, err}
	}()
	time.Sleep(20 * time.Millisecond) // it waits for the lock; when it is slower, it finds no file, and the test sees less
	if err := discard(first); err != nil {
		t.Fatal(err)
	}
	got := <-second
	if got.err != nil || got.f == nil {
		t.Fatalf("claim after a removal: %v, %v", got.f, got.err)
	}
	defer got.f.Close()
	if !same(got.f, s.path("tmp", "blob")) {
		t.Error("it holds a file that has no name")
	}
}

// Content that a dead process left in a file is gone when the file is claimed.
func TestClaimOfALeftFile(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := s.makeDirs(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("tmp", "blob"), []byte("of a dead process"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := s.claim(t.Context(), "blob", func() bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() != 0 {
		t.Errorf("%d bytes, %v", fi.Size(), err)
	}
	if g, err := s.claim(t.Context(), "blob", func() bool { return true }); g != nil || err != nil {
		t.Errorf("claim that is needless: %v, %v", g, err)
	}
}

// A beginning of an ID means one image, however many names that has, and no image
// where several begin so.
func TestFindByBeginning(t *testing.T) {
	t.Parallel()
	entry := func(hex, name string) ocispec.Descriptor {
		for len(hex) < 64 {
			hex += "0"
		}
		return ocispec.Descriptor{
			Digest: digest.NewDigestFromEncoded(digest.SHA256, hex), Annotations: map[string]string{ocispec.AnnotationRefName: name},
		}
	}
	idx := newIndex()
	idx.Manifests = []ocispec.Descriptor{
		entry("abcd1", "docker.io/library/a:v1"), entry("abcd1", "docker.io/library/a:v2"), entry("abcd2", "docker.io/library/b:v1"),
	}
	for id, want := range map[string]string{
		"abcd1":        "docker.io/library/a:v1",
		"sha256:abcd2": "docker.io/library/b:v1",
	} {
		if d, err := find(idx, id); err != nil || nameOf(d) != want {
			t.Errorf("%s: %+v, %v", id, d, err)
		}
	}
	if _, err := find(idx, "abcd"); err == nil || err.Error() != "image abcd: 2 images have an ID that begins so" {
		t.Errorf("abcd: %v", err)
	}
}
