package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
)

// A judge sees each image of an archive with its name, or its digest where it has
// none, and with the signatures that came; one refusal, and nothing is loaded.
func TestLoadIf(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	a, b := commit(t, from, "a", "one"), commit(t, from, "b", "two")
	if err := from.AddSignatures(t.Context(), a.Digest, []sign.Signature{{Payload: []byte("{}"), Signature: "of a"}}); err != nil {
		t.Fatal(err)
	}
	archive := save(t, from, store.SaveOptions{}, "a", b.Digest.Encoded())
	type seen struct {
		Name       string
		Digest     digest.Digest
		Signatures int
	}
	want := []seen{{"docker.io/library/a:latest", a.Digest, 1}, {b.Digest.String(), b.Digest, 0}}
	refusal := errors.New("not signed by us")
	for name, refused := range map[string]string{"all are good": "", "the first is not": want[0].Name, "the second is not": want[1].Name} {
		to := open(t, t.TempDir())
		var got []seen
		loaded, err := to.LoadIf(t.Context(), bytes.NewReader(archive), func(name string, d digest.Digest, list []sign.Signature) error {
			got = append(got, seen{name, d, len(list)})
			if name == refused {
				return refusal
			}
			return nil
		})
		if refused == "" {
			if diff := cmp.Diff(want, got); diff != "" || err != nil || len(loaded) != 2 {
				t.Errorf("%s: %d images, %v (-want +got):\n%s", name, len(loaded), err, diff)
			}
			continue
		}
		if blobs, layers := held(t, to); !errors.Is(err, refusal) || len(blobs)+len(layers) > 0 {
			t.Errorf("%s: %v; left %v, %v", name, err, blobs, layers)
		}
	}
	broken := untar(t, archive)
	for i, f := range broken {
		if f.name == "index.json" {
			broken[i].content = strings.Replace(f.content, `"io.sealer.signatures":"[`, `"io.sealer.signatures":"{`, 1)
		}
	}
	_, err := open(t, t.TempDir()).LoadIf(t.Context(), bytes.NewReader(archiveOf(t, broken...)), func(string, digest.Digest, []sign.Signature) error { return nil })
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "index.json: signatures of "+a.Digest.String()) {
		t.Errorf("signatures that are no list: %v", err)
	}
}

// An archive of docker save is taken where it is an OCI image layout, too, as since
// Docker 25, and its entries are counted.
func TestLoadOfDockersArchives(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	commit(t, from, "a", "one")
	files := append(untar(t, save(t, from, store.SaveOptions{}, "a")), file("manifest.json", "[]"))
	limited := func(most int64) (*store.Store, error) {
		s, err := store.Open(t.TempDir(), store.Options{Limits: store.Limits{Layer: layer.Limits{Entries: most}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Load(t.Context(), bytes.NewReader(archiveOf(t, files...)))
		return s, errors.Join(err, s.Close())
	}
	if s, err := limited(int64(len(files))); err != nil {
		t.Errorf("Load: %v", err)
	} else if _, err := s.Image(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
	if _, err := limited(int64(len(files)) - 1); !errors.Is(err, store.ErrLimit) || !strings.Contains(err.Error(), fmt.Sprintf("more than %d entries", len(files)-1)) {
		t.Errorf("an entry too many: %v", err)
	}
	_, err := open(t, t.TempDir()).Load(t.Context(), bytes.NewReader(archiveOf(t, file("manifest.json", "[]"))))
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "docker save without an OCI image layout") {
		t.Errorf("without a layout: %v", err)
	}
}

// A save counts the blobs that it writes and those that it leaves out.
func TestSavedCounts(t *testing.T) {
	t.Parallel()
	from, _, _ := deltaOf(t)
	base, err := from.ImageInventory(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := from.ImageInventory(t.Context(), "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	without, want := inventory.Set{}, store.Saved{}
	without.Add(base)
	for _, b := range all.Blobs {
		if without.Has(b.Digest, b.Size) {
			want.LeftOutBlobs++
			want.LeftOutBytes += b.Size
		} else {
			want.Blobs++
			want.Bytes += b.Size
		}
	}
	got, err := from.Save(t.Context(), io.Discard, []string{"b"}, store.SaveOptions{Without: without})
	if diff := cmp.Diff(want, got); diff != "" || err != nil || want.LeftOutBlobs == 0 || want.Blobs == 0 {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Of the blobs that a store lacks the first three are named, and the rest counted.
func TestLackingBlobsAreNamed(t *testing.T) {
	t.Parallel()
	_, _, delta := deltaOf(t)
	files := untar(t, delta)
	for n, text := range map[int]string{2: "2 of the 2 blobs that were left out, 20 bytes", 3: "3 of the 3", 5: "and 2 more"} {
		var left inventory.Inventory
		for i := range n {
			left.Blobs = append(left.Blobs, inventory.Blob{Digest: digest.FromString(fmt.Sprint("blob ", i)), Size: 10})
		}
		list, err := left.Encode()
		if err != nil {
			t.Fatal(err)
		}
		changed := append([]entry{}, files...)
		d := digest.FromBytes(list).Encoded()
		changed[1].content = strings.ReplaceAll(files[1].content, strings.TrimPrefix(files[2].name, "blobs/sha256/"), d)
		changed[2] = file("blobs/sha256/"+d, string(list))
		_, err = open(t, t.TempDir()).Load(t.Context(), bytes.NewReader(archiveOf(t, changed...)))
		if !errors.Is(err, store.ErrLacks) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "more") != (n > 3) {
			t.Errorf("%d blobs: %v, want %q", n, err, text)
		}
	}
	changed := append([]entry{}, files...)
	changed[2].content = emptyList(t)
	if _, err := store.ReadArchiveInventory(t.Context(), bytes.NewReader(archiveOf(t, changed...))); !errors.Is(err, store.ErrMismatch) {
		t.Errorf("an inventory with a list of another digest: %v", err)
	}
}

// An inventory of a store has the names of its images where they are asked for.
func TestInventoryNames(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	a := commit(t, s, "a", "one")
	b := write(t, s, "linux/amd64", addLayer(t, s, file("b", "b")))
	if err := s.Commit(t.Context(), nil, b); err != nil {
		t.Fatal(err)
	}
	for names, want := range map[bool][]inventory.Name{true: {{Name: "docker.io/library/a:latest", Digest: a.Digest}}, false: nil} {
		v, err := s.Inventory(t.Context(), names)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, v.Names); diff != "" {
			t.Errorf("names %v (-want +got):\n%s", names, diff)
		}
	}
}

// A beginning of a blob that was damaged on the disk costs the blob nothing but a
// second try: it is written anew from its first byte.
func TestDamagedPartial(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	b := bytes.Repeat([]byte("beginning"), 1<<20)
	path := breakOff(t, root, b, 4000)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("ZEROS"), 100); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := store.Open(root, store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var from []int64
	err = s.PutBlob(t.Context(), describe(b), func(w io.Writer) error {
		at, err := w.(remote.Resumer).Resume()
		if err != nil {
			return err
		}
		from = append(from, at)
		_, err = w.Write(b[at:])
		return err
	})
	if diff := cmp.Diff([]int64{4000, 0}, from); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if has, err := s.HasBlob(t.Context(), describe(b).Digest); err != nil || !has {
		t.Errorf("the blob is there: %v, %v", has, err)
	}
	if n := strings.Count(log.String(), "going on with a blob"); n != 1 {
		t.Errorf("told %d times that it goes on: %s", n, log.String())
	}
	if n := strings.Count(log.String(), "beginning a blob anew"); n != 1 {
		t.Errorf("told %d times that it begins anew: %s", n, log.String())
	}
	// The same content in full: nothing was there, and nothing is told.
	log.Reset()
	other := bytes.Repeat([]byte("another.."), 1<<20)
	err = s.PutBlob(t.Context(), describe(other), func(w io.Writer) error {
		if at, err := w.(remote.Resumer).Resume(); err != nil || at != 0 {
			return fmt.Errorf("at %d: %w", at, err)
		}
		if _, err := w.Write(other[:10]); err != nil {
			return err
		}
		if err := w.(remote.Resumer).Restart(); err != nil {
			return err
		}
		_, err := w.Write(other)
		return err
	})
	if err != nil || log.Len() > 0 {
		t.Errorf("%v, %s", err, log.String())
	}
}

// Each directory of an export has its mode and time, however deep it lies.
func TestExportDirectories(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	commitImage(t, s, "a", image.Config{}, addLayer(t, s,
		entry{name: "one/", mode: 0o711}, entry{name: "one/two/", mode: 0o750}, file("one/two/file", "x"), entry{name: "three/", mode: 0o700}))
	base := t.TempDir()
	dir := filepath.Join(base, "out")
	if err := s.ExportDir(t.Context(), dir, "a", store.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"one": 0o711, "one/two": 0o750, "three": 0o700} {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil || fi.Mode().Perm() != want || !fi.ModTime().Equal(time.Unix(1, 0)) {
			t.Errorf("%s: %v, %v, %v; want %v", name, fi.Mode(), fi.ModTime(), err, want)
		}
	}
	if err := s.ExportDir(t.Context(), dir, "a", store.ExportOptions{}); err == nil || !strings.Contains(err.Error(), "it is not empty") {
		t.Errorf("into what was exported: %v", err)
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
