package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A disk fails the flushes of a Store. After a failed flush its content is the
// one of lost, whatever the files say: they are the page cache.
type disk struct {
	failing bool
	flushes int
	lost    map[digest.Digest]bool // blobs that never came to the disk
}

func (d *disk) under(s *Store) *Store {
	s.syncFS = func(*os.File) error {
		d.flushes++
		if d.failing {
			return syscall.EIO
		}
		return nil
	}
	s.openDirect = func(path string) (io.ReadCloser, error) {
		if d.lost[digest.NewDigestFromEncoded(digest.SHA256, filepath.Base(path))] {
			return io.NopCloser(strings.NewReader("zeros")), nil
		}
		return os.Open(path)
	}
	return s
}

func openTest(t *testing.T, root string) *Store {
	t.Helper()
	s, err := Open(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// buildTest writes an image with a rootfs layer and a registry layer, as a build
// does: what the store has is not written again. It returns Commit's error.
func buildTest(t *testing.T, s *Store) error {
	t.Helper()
	ctx := t.Context()
	var layers []image.Layer
	files, err := s.WriteLayer(ctx, LayerOptions{}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		content := strings.Repeat("content ", 1000)
		err := tw.WriteHeader(&tar.Header{Name: "etc/file", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))})
		_, werr := io.WriteString(tw, content)
		return errors.Join(err, werr, tw.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	blob, err := s.putBytes(ctx, tree.MediaTypeBlob, mirrored())
	if err != nil {
		t.Fatal(err)
	}
	doc := &tree.Document{SchemaVersion: 1, Repositories: []tree.Repository{{
		Name: "library/x", Revisions: []tree.Revision{{Digest: blob.Digest, MediaType: ocispec.MediaTypeImageManifest, Size: blob.Size}},
	}}, Blobs: []tree.Blob{{Digest: blob.Digest, Size: blob.Size}}}
	registry, err := s.WriteRegistryLayer(ctx, doc)
	if err != nil {
		t.Fatal(err)
	}
	layers = append(layers, files, registry)
	c := image.Config{Platform: platform.Default(), Layers: []image.ConfigLayer{{Type: "COPY"}, {Type: image.LayerTypeBase, Value: image.RegistryLayerValue}}}
	desc, err := s.WriteImage(ctx, c, layers, nil)
	if err != nil {
		t.Fatal(err)
	}
	name, err := ref.Parse("app")
	if err != nil {
		t.Fatal(err)
	}
	return s.Commit(ctx, []ref.Reference{name}, desc)
}

func mirrored() []byte { return bytes.Repeat([]byte("mirrored "), 1000) }

// inode identifies the file of a blob.
func sameBlobFile(t *testing.T, s *Store, d digest.Digest, before os.FileInfo) bool {
	t.Helper()
	now, err := os.Stat(s.BlobPath(d))
	if err != nil {
		t.Fatal(err)
	}
	return os.SameFile(before, now)
}

func verifyTest(t *testing.T, s *Store) {
	t.Helper()
	v, err := s.Verify(t.Context(), "app", VerifyOptions{})
	if err != nil || len(v.Faults) > 0 || v.Layers != 2 {
		t.Errorf("verify: %+v, %v", v, err)
	}
}

// A flush that failed is not reported as success by the next try, in the same
// process or in another: everything is read past the page cache, and written
// again where the disk has another content.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(t *testing.T, s *Store) *Store{
		"same process": func(_ *testing.T, s *Store) *Store { return s },
		"another process": func(t *testing.T, s *Store) *Store {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return openTest(t, s.root)
		},
		"another process beside": func(t *testing.T, s *Store) *Store {
			t.Helper()
			return openTest(t, s.root)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &disk{failing: true, lost: map[digest.Digest]bool{}}
			s := d.under(openTest(t, t.TempDir()))
			if err := buildTest(t, s); !errors.Is(err, syscall.EIO) {
				t.Fatalf("Commit with a failing disk: %v", err)
			}
			if _, err := s.Image(t.Context(), "app", nil); !errors.Is(err, ErrNotFound) {
				t.Errorf("the image is there: %v", err)
			}
			if err := buildTest(t, s); !errors.Is(err, syscall.EIO) {
				t.Fatalf("a second Commit with a failing disk: %v", err)
			}
			lost := digest.FromBytes(mirrored())
			d.lost[lost] = true
			before, err := os.Stat(s.BlobPath(lost))
			if err != nil {
				t.Fatal(err)
			}
			d.failing, d.flushes = false, 0
			s = d.under(again(t, s))
			if err := buildTest(t, s); err != nil {
				t.Fatalf("Commit with a good disk: %v", err)
			}
			if d.flushes == 0 && name != "another process" { // whose first flush is Open's, on the real disk
				t.Error("no flush")
			}
			if name != "another process" && sameBlobFile(t, s, lost, before) {
				t.Error("the blob that the disk lost was not written again")
			}
			verifyTest(t, s)
		})
	}
}

// A process that died while it flushed, and one whose early flush failed, are not
// trusted either.
func TestUnprovenSessions(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"died in a flush": lineFlush + " 2026-01-02T03:04:05Z", "failed": lineFailed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openTest(t, t.TempDir())
			if err := buildTest(t, s); err != nil {
				t.Fatal(err)
			}
			lost := digest.FromBytes(mirrored())
			before, err := os.Stat(s.BlobPath(lost))
			if err != nil {
				t.Fatal(err)
			}
			record := filepath.Join(s.root, "tmp", sessionPrefix+"dead")
			if err := os.WriteFile(record, []byte(`{"boot":"`+bootID()+`","began":"2026-01-02T03:04:05Z"}`+"\n"+line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d := &disk{lost: map[digest.Digest]bool{lost: true}}
			d.under(s)
			if err := buildTest(t, s); err != nil {
				t.Fatal(err)
			}
			if d.flushes == 0 || sameBlobFile(t, s, lost, before) {
				t.Errorf("%d flushes, and the blob is the old one", d.flushes)
			}
			if _, err := os.Stat(record); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the record is left: %v", err)
			}
			verifyTest(t, s)
		})
	}
}

// A blob that neither the disk nor the page cache has is gone, and the image is
// not committed without it.
func TestFailedFlushLosesABlob(t *testing.T) {
	t.Parallel()
	d := &disk{failing: true, lost: map[digest.Digest]bool{}}
	s := d.under(openTest(t, t.TempDir()))
	if err := buildTest(t, s); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	lost := digest.FromBytes(mirrored())
	d.lost[lost], d.failing = true, false
	path := s.BlobPath(lost)
	if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, bytes.Repeat([]byte{0}, len(mirrored())), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if has, err := s.HasBlob(t.Context(), lost); has || err != nil {
		t.Errorf("the broken blob is there: %v", err)
	}
	if err := buildTest(t, s); err != nil {
		t.Errorf("the next build: %v", err)
	}
	verifyTest(t, s)
}

// index.json whose name could not be flushed is written again, though its
// content is the same.
func TestFailedFlushOfTheIndex(t *testing.T) {
	t.Parallel()
	d := &disk{}
	s := d.under(openTest(t, t.TempDir()))
	index := filepath.Join(s.root, "image", ocispec.ImageIndexFile)
	failing := true
	s.syncDir = func(dir string) error {
		if failing && dir == filepath.Dir(index) {
			return syscall.EIO
		}
		return syncDir(dir)
	}
	if err := buildTest(t, s); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Commit: %v", err)
	}
	before, err := os.Stat(index)
	if err != nil {
		t.Fatal(err)
	}
	failing = false
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(index); err != nil || os.SameFile(before, now) {
		t.Errorf("index.json is the unflushed one: %v", err)
	}
}

func TestReadRecord(t *testing.T) {
	t.Parallel()
	a, b := digest.FromString("a"), digest.FromString("b")
	const head = `{"boot":"x","pid":1,"began":"2026-01-02T03:04:05Z"}` + "\n"
	for name, tc := range map[string]struct {
		in               string
		layers           []digest.Digest
		flushing, failed bool
		since            string
	}{
		"open":               {in: head + string(a) + "\n", layers: []digest.Digest{a}, since: "03:04:05"},
		"flushed":            {in: head + string(a) + "\nflush 2026-01-02T05:00:00Z\nflushed\n", since: "05:00:00"},
		"during the flush":   {in: head + string(a) + "\nflush 2026-01-02T05:00:00Z\n" + string(b) + "\nflushed\n", layers: []digest.Digest{b}, since: "05:00:00"},
		"died in the flush":  {in: head + string(a) + "\nflush 2026-01-02T05:00:00Z\n", layers: []digest.Digest{a}, flushing: true, since: "03:04:05"},
		"failed":             {in: head + string(a) + "\nflush 2026-01-02T05:00:00Z\nfailed\n", layers: []digest.Digest{a}, failed: true, since: "03:04:05"},
		"failed, then good":  {in: head + string(a) + "\nflush 2026-01-02T05:00:00Z\nfailed\nflush 2026-01-02T06:00:00Z\nflushed\n", since: "06:00:00"},
		"cut in a line":      {in: head + string(a)[:20], since: "03:04:05"},
		"of a later version": {in: head + "word\n" + string(a) + "\n", layers: []digest.Digest{a}, since: "03:04:05"},
	} {
		path := filepath.Join(t.TempDir(), "record")
		if err := os.WriteFile(path, []byte(tc.in), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := readRecord(f)
		if err != nil || len(r.layers) != len(tc.layers) || r.flushing != tc.flushing || r.failed != tc.failed || r.since.Format("15:04:05") != tc.since {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		_ = f.Close()
	}
}

// A record whose flush failed is no record: nothing is published, even where the
// layer is there already, and the next flush is of a new file.
func TestFailedFlushOfTheRecord(t *testing.T) {
	t.Parallel()
	s := openTest(t, t.TempDir())
	if err := buildTest(t, s); err != nil {
		t.Fatal(err)
	}
	layers, err := os.ReadDir(s.path("data/overlay2"))
	if err != nil || len(layers) == 0 {
		t.Fatalf("%v, %v", layers, err)
	}
	id := digest.NewDigestFromEncoded(digest.SHA256, layers[0].Name())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good := s.syncDir
	s.syncDir = func(string) error { return syscall.EIO }
	dir, remove, err := s.TempDir(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = remove() }()
	if err := s.publishDir(t.Context(), dir, id); !errors.Is(err, syscall.EIO) {
		t.Errorf("publish with a record that was not flushed: %v", err)
	}
	before, err := s.session.record.Stat()
	if err != nil {
		t.Fatal(err)
	}
	s.syncDir = good
	if err := s.publishDir(t.Context(), dir, id); err != nil {
		t.Error(err)
	}
	after, err := s.session.record.Stat()
	if err != nil || os.SameFile(before, after) {
		t.Errorf("the record is still the file whose flush failed: %v", err)
	}
	r, err := readRecord(s.session.record)
	if err != nil || !slices.Contains(r.layers, id) {
		t.Errorf("the new record: %+v, %v", r, err)
	}
	if n := len(s.records()); n != 1 {
		t.Errorf("%d records", n)
	}
}
