package transfer_test

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
	"github.com/clusterimage/sealer/transfer"
)

// entries counts the files and directories of a store that prune leaves.
func entries(t testing.TB, s *store.Store) int {
	t.Helper()
	n := 0
	for _, dir := range []string{"image", "data"} {
		err := filepath.WalkDir(filepath.Join(s.Root(), dir), func(string, fs.DirEntry, error) error { n++; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// many is a number of container images whose registry tree is large.
const many = 60

// A version of which one container image changed adds its new blobs, its document,
// config and manifest to the store: no directory for each image.
func TestVersionAddsOnlyTheChange(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	v1 := build(t, s, nil, 0, many, 0, "team/q:v1")
	before := entries(t, s)
	v2 := build(t, s, nil, 0, many, 2, "team/q:v2")
	if got, most := entries(t, s)-before, blobsPerImage+3; got > most {
		t.Errorf("%d files and directories more, at most %d are good", got, most)
	}
	registryOf := func(im *store.Image) digest.Digest { return im.Layers[len(im.Layers)-1].ID }
	if s.IsUnwritten(registryOf(v1)) || !s.IsUnwritten(registryOf(v2)) {
		t.Errorf("unwritten: v1 %v, v2 %v", s.IsUnwritten(registryOf(v1)), s.IsUnwritten(registryOf(v2)))
	}
	small := build(t, s, nil, 0, 3, 0, "team/small:v1")
	if s.IsUnwritten(registryOf(small)) {
		t.Error("a small tree is not written")
	}
	pulled := storetest.New(t)
	v := newTravel(t)
	for im, name := range map[*store.Image]string{v1: "team/q:v1", v2: "team/q:v2"} {
		v.push(s, im, name, transfer.PushOptions{})
	}
	v.pull(pulled, "team/q:v1")
	before = entries(t, pulled)
	v.pull(pulled, "team/q:v2")
	if got, most := entries(t, pulled)-before, blobsPerImage+3; got > most {
		t.Errorf("pull: %d files and directories more, at most %d are good", got, most)
	}
}

// An image whose registry tree is not written is verified, served, exported and
// kept as any other; Tree writes the same files.
func TestUnwrittenTree(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	build(t, s, nil, 0, many, 0, "team/q:v1")
	v2 := build(t, s, nil, 0, many, 2, "team/q:v2")
	id, doc := v2.Layers[0].ID, v2.Documents[0]
	if !s.IsUnwritten(id) {
		t.Fatal("it is written")
	}
	verify := func() []store.Fault {
		t.Helper()
		got, err := s.Verify(t.Context(), v2.ID, store.VerifyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Broken()
	}
	if faults := verify(); len(faults) > 0 {
		t.Errorf("verify: %v", faults)
	}
	if got := transfer.RegistryLayers(s, v2.LayerIDs()); len(got) != 1 {
		t.Errorf("RegistryLayers: %v", got)
	}
	source := doc.Repositories[0].Tags[0].Sources[0]
	references := []ref.Reference{source, {Registry: "quay.io", Repository: "none", Tag: "v1"}}
	if missing, err := transfer.Lacking(t.Context(), s, v2.LayerIDs(), references, registry.VerifyOptions{}); err != nil || len(missing) != 1 {
		t.Errorf("lacking: %v, %v", missing, err)
	}

	// Served, and kept from prune while it is, without its name.
	service, err := transfer.NewService(t.Context(), s, transfer.Selection{Names: []string{"team/q:v2"}}, registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := store.Open(s.Root(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"team/q:v1", "team/q:v2"} {
		if _, err := other.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest("GET", "/v2/"+source.Repository+"/blobs/"+doc.Repositories[0].Layers[0].String(), nil))
	if w.Code != http.StatusOK {
		t.Errorf("served after rmi: %d %s", w.Code, w.Body)
	}
	if err := service.Close(); err != nil {
		t.Error(err)
	}
	build(t, s, nil, 0, many, 0, "team/q:v1")
	build(t, s, nil, 0, many, 2, "team/q:v2")

	// Its files.
	dir := filepath.Join(t.TempDir(), "out")
	if err := s.ExportDir(t.Context(), dir, "team/q:v2", store.ExportOptions{NoRegistry: true}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := s.ExportDir(t.Context(), dir, "team/q:v2", store.ExportOptions{}); err != nil {
		t.Fatal(err)
	}
	if faults := tree.VerifyLinks(dir, doc); len(faults) > 0 || !tree.Present(dir, doc) {
		t.Errorf("exported: %v", faults)
	}
	if s.IsUnwritten(id) || !s.HasTree(id, doc) {
		t.Error("export did not write the tree")
	}
	if faults := verify(); len(faults) > 0 {
		t.Errorf("verify of the written tree: %v", faults)
	}

	// The tree is lost, and then a blob.
	if err := os.RemoveAll(s.LayerDir(id)); err != nil {
		t.Fatal(err)
	}
	if faults := verify(); len(faults) > 0 {
		t.Errorf("verify: %v", faults)
	}
	if _, err := s.OverlayDirs(t.Context(), v2.LayerIDs(), true); err != nil || s.IsUnwritten(id) {
		t.Errorf("overlayfs: %v", err)
	}
	if err := os.RemoveAll(s.LayerDir(id)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.BlobPath(doc.Blobs[0].Digest)); err != nil {
		t.Fatal(err)
	}
	if s.HasTree(id, doc) || len(verify()) != 1 {
		t.Error("a blob that is gone is not missed")
	}
	if _, err := s.Tree(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a tree without a blob: %v", err)
	}
	if _, err := s.Tree(t.Context(), digest.FromString("none")); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a layer that is not there: %v", err)
	}
}
