package store_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// entry is one entry of a tar: a directory when its name ends with "/", a
// symbolic link with link, a hard link with hard, else a file.
type entry struct {
	name, content, link, hard string
	mode                      int64
	typ                       byte
}

func writeTar(entries ...entry) func(io.Writer) error {
	return func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, e := range entries {
			h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: time.Unix(1, 0), Typeflag: tar.TypeReg}
			switch {
			case e.typ != 0:
				h.Typeflag = e.typ
			case e.link != "":
				h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
			case e.hard != "":
				h.Typeflag, h.Linkname = tar.TypeLink, e.hard
			case e.name[len(e.name)-1] == '/':
				h.Typeflag, h.Mode = tar.TypeDir, 0o755
			}
			if e.mode != 0 {
				h.Mode = e.mode
			}
			if err := tw.WriteHeader(h); err != nil {
				return err
			}
			if _, err := io.WriteString(tw, e.content); err != nil {
				return err
			}
		}
		return tw.Close()
	}
}

func file(name, content string) entry { return entry{name: name, content: content} }

func addLayer(t testing.TB, s *store.Store, entries ...entry) image.Layer {
	t.Helper()
	l, err := s.WriteLayer(t.Context(), store.LayerOptions{}, writeTar(entries...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// blob puts content into the store.
func blob(t testing.TB, s *store.Store, content string) ocispec.Descriptor {
	t.Helper()
	d := describe([]byte(content))
	if err := s.PutBlob(t.Context(), d, copyIn([]byte(content))); err != nil {
		t.Fatal(err)
	}
	return d
}

// document describes the mirrored image name, which is one blob, its manifest.
func document(t testing.TB, s *store.Store, name, content string) *tree.Document {
	t.Helper()
	d := blob(t, s, content)
	return &tree.Document{
		Repositories: []tree.Repository{{
			Name: name, Tags: []tree.Tag{{Name: "v1", Digest: d.Digest}},
			Revisions: []tree.Revision{{Digest: d.Digest, MediaType: ocispec.MediaTypeImageManifest, Size: d.Size}},
		}},
		Blobs: []tree.Blob{{Digest: d.Digest, Size: d.Size}},
	}
}

func names(t testing.TB, list ...string) []ref.Reference {
	t.Helper()
	var out []ref.Reference
	for _, n := range list {
		r, err := ref.Parse(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// write writes an image of the layers for a platform, without committing it.
func write(t testing.TB, s *store.Store, p string, layers ...image.Layer) ocispec.Descriptor {
	t.Helper()
	pl, err := platform.Parse(p)
	if err != nil {
		t.Fatal(err)
	}
	c := image.Config{SealerVersion: "1", Type: image.TypeKubeInstaller, Platform: pl}
	for _, l := range layers {
		origin := image.ConfigLayer{Type: "COPY", Value: "x ."}
		if l.Descriptors[0].MediaType == tree.MediaTypeDocument {
			origin = image.ConfigLayer{Type: image.LayerTypeBase, Value: image.RegistryLayerValue}
		}
		c.Layers = append(c.Layers, origin)
	}
	d, err := s.WriteImage(t.Context(), c, layers, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// commit makes an image of one file and one mirrored image, with content of
// its own.
func commit(t testing.TB, s *store.Store, name, content string) ocispec.Descriptor {
	t.Helper()
	reg, err := s.WriteRegistryLayer(t.Context(), document(t, s, "library/nginx", "manifest "+content))
	if err != nil {
		t.Fatal(err)
	}
	d := write(t, s, "linux/amd64", addLayer(t, s, file("etc/a", content)), reg)
	if err := s.Commit(t.Context(), names(t, name), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// content returns all files of a tree.
func content(t testing.TB, fsys fs.FS) map[string]string {
	t.Helper()
	out, err := files(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// files returns all files of a directory.
func files(fsys fs.FS) (map[string]string, error) {
	out := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, p)
		out[p] = string(b)
		return err
	})
	return out, err
}

func TestImage(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	if all, err := s.Images(t.Context()); len(all) != 0 || err != nil {
		t.Fatalf("Images of an empty store: %v, %v", all, err)
	}
	d := commit(t, s, "nginx", "one")
	img, err := s.Image(t.Context(), "docker.io/library/nginx:latest", nil)
	if err != nil {
		t.Fatal(err)
	}
	if img.Descriptor.Digest != d.Digest || img.ID != d.Digest.Encoded() || img.Plain || time.Since(img.Added) > time.Hour || !img.Built.IsZero() {
		t.Errorf("image %+v", img)
	}
	if diff := cmp.Diff([]string{"docker.io/library/nginx:latest"}, img.Names); diff != "" {
		t.Error(diff)
	}
	if len(img.Layers) != 2 || len(img.Documents) != 1 || img.Layers[0].Size != 3 || img.Config.Layers[1].ID != img.Layers[1].ID {
		t.Errorf("layers %+v", img.Layers)
	}
	if img.Manifest.ArtifactType != image.ArtifactType || img.Manifest.Layers[0].Annotations[image.AnnotationLayerType] != "COPY" {
		t.Errorf("manifest %+v", img.Manifest)
	}
	// The registry tree is hard links to the blobs.
	mirrored := img.Documents[0].Blobs[0].Digest
	a, err := os.Stat(filepath.Join(s.LayerDir(img.Layers[1].ID), tree.Root, tree.BlobPath(mirrored)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.Stat(s.BlobPath(mirrored))
	if err != nil || !os.SameFile(a, b) || a.Mode().Perm() != 0o444 {
		t.Errorf("%v is no hard link to %v", a, b)
	}
	// By ID, by a piece of it, and in a second process.
	other := open(t, s.Root())
	for _, id := range []string{img.ID, img.ID[:7], "sha256:" + img.ID, "nginx@sha256:" + img.ID} {
		if got, err := other.Image(t.Context(), id, nil); err != nil || got.ID != img.ID {
			t.Errorf("Image(%s): %v", id, err)
		}
	}
	for _, id := range []string{"nginx:v2", "ffff0000", "x/nginx"} {
		if _, err := other.Image(t.Context(), id, nil); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Image(%s): %v", id, err)
		}
	}
	for _, dir := range []string{".", "etc"} {
		if fi, err := os.Stat(filepath.Join(s.LayerDir(img.Layers[0].ID), dir)); err != nil || fi.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", dir, fi.Mode(), err)
		}
	}
	if left := temporaries(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

// Equal inputs, equal digests: in another store, at another time.
func TestImageIsReproducible(t *testing.T) {
	t.Parallel()
	a := commit(t, open(t, t.TempDir()), "a", "x")
	b := commit(t, open(t, t.TempDir()), "b", "x")
	if a.Digest != b.Digest {
		t.Errorf("%s and %s", a.Digest, b.Digest)
	}
}

func TestPlatforms(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	amd := write(t, s, "linux/amd64", addLayer(t, s, file("a", "amd64")))
	arm := write(t, s, "linux/arm64", addLayer(t, s, file("a", "arm64")))
	idx, err := s.WriteIndex(t.Context(), []ocispec.Descriptor{amd, arm}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), names(t, "multi"), idx); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]ocispec.Descriptor{"linux/amd64": amd, "linux/arm64": arm} {
		pl, err := platform.Parse(p)
		if err != nil {
			t.Fatal(err)
		}
		img, err := s.Image(t.Context(), "multi", &pl)
		if err != nil || img.ManifestDescriptor.Digest != want.Digest || len(img.Platforms) != 2 || img.Index == nil {
			t.Errorf("%s: %+v, %v", p, img, err)
		}
	}
	if _, err := s.Image(t.Context(), "multi", &ocispec.Platform{OS: "linux", Architecture: "s390x"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("s390x: %v", err)
	}
	if all, err := s.Images(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("Images: %d, %v", len(all), err)
	}
}

func TestTagAndRemove(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := open(t, t.TempDir())
	commit(t, s, "a", "one")
	two := commit(t, s, "b", "two")
	if err := s.Tag(ctx, "a", names(t, "a:v2")[0]); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Remove(ctx, "a"); err != nil || r.ID != "" || len(r.Names) != 1 {
		t.Fatalf("Remove one name: %+v, %v", r, err)
	}
	if _, err := s.Image(ctx, "a:v2", nil); err != nil {
		t.Fatal(err)
	}
	r, err := s.Remove(ctx, "a:v2")
	if err != nil || r.ID == "" || r.Pruned.Size == 0 {
		t.Fatalf("Remove the last name: %+v, %v", r, err)
	}
	if _, err := s.Remove(ctx, "a:v2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Remove again: %v", err)
	}
	// Only what b needs is left, and it is whole.
	img, err := s.Image(ctx, "b", nil)
	if err != nil || img.Descriptor.Digest != two.Digest {
		t.Fatal(err)
	}
	blobs, err := os.ReadDir(filepath.Join(s.Root(), "image/blobs/sha256"))
	if err != nil || len(blobs) != 2+len(img.Manifest.Layers) {
		t.Errorf("%d blobs, %v", len(blobs), err)
	}
	layers, err := os.ReadDir(filepath.Join(s.Root(), "data/overlay2"))
	if err != nil || len(layers) != 2 {
		t.Errorf("%d layers, %v", len(layers), err)
	}
	// A name that moves takes the image that had nothing else.
	commit(t, s, "b", "three")
	if _, err := s.Image(ctx, two.Digest.Encoded(), nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the image that lost its name: %v", err)
	}
}

// Commit of what a pull brought: blobs only.
func TestCommitUnpacks(t *testing.T) {
	t.Parallel()
	from := open(t, t.TempDir())
	d := commit(t, from, "a", "one")
	img, err := from.Image(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	to := open(t, t.TempDir())
	all := append([]ocispec.Descriptor{d, img.Manifest.Config}, img.Manifest.Layers...)
	for i, b := range all {
		if err := to.Commit(t.Context(), names(t, "a"), d); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("Commit with %d blobs of %d: %v", i, len(all), err)
		}
		content, err := from.ReadBlob(t.Context(), b.Digest, b.Size)
		if err != nil {
			t.Fatal(err)
		}
		if err := to.PutBlob(t.Context(), b, copyIn(content)); err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := to.Images(t.Context()); len(all) != 0 {
		t.Fatalf("visible before Commit: %v", all)
	}
	if err := to.Commit(t.Context(), names(t, "a"), d); err != nil {
		t.Fatal(err)
	}
	r, err := to.Rootfs(img.LayerIDs())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := fs.ReadFile(r, "etc/a"); string(b) != "one" {
		t.Errorf("etc/a is %q, %v", b, err)
	}
	if faults := tree.VerifyLinks(to.LayerDir(img.Layers[1].ID), img.Documents[0]); len(faults) > 0 {
		t.Error(faults)
	}
}

// Commits, tags and removals of several stores at a time lose nothing.
func TestIndexIsShared(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	stores := []*store.Store{open(t, root), open(t, root)}
	commit(t, stores[0], "base", "x")
	img, err := stores[0].Image(t.Context(), "base", nil)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 20 {
		s, name := stores[i%2], fmt.Sprintf("n%02d", i)
		wg.Go(func() {
			if err := s.Commit(t.Context(), names(t, name, name+":gone"), img.Descriptor); err != nil {
				t.Error(err)
			}
			if err := s.Tag(t.Context(), name, names(t, name+":tagged")[0]); err != nil {
				t.Error(err)
			}
			if _, err := s.Remove(t.Context(), name+":gone"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all, err := open(t, root).Images(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Names) != 41 {
		t.Errorf("%d images, %v", len(all), err)
	}
}
