package store_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/store"
)

// untar returns the files of a tar, in order.
func untar(t testing.TB, b []byte) []entry {
	t.Helper()
	var out []entry
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, file(h.Name, string(content)))
	}
}

// deltaOf returns a store with the image b, and the tar of b without the blobs of
// the image a, with another store that has a.
func deltaOf(t testing.TB) (from, to *store.Store, delta []byte) {
	t.Helper()
	from, to = open(t, t.TempDir()), open(t, t.TempDir())
	commit(t, from, "a", "one")
	if _, err := to.Load(t.Context(), bytes.NewReader(save(t, from, store.SaveOptions{}, "a"))); err != nil {
		t.Fatal(err)
	}
	reg, err := from.WriteRegistryLayer(t.Context(), document(t, from, "library/nginx", "manifest two"))
	if err != nil {
		t.Fatal(err)
	}
	b := write(t, from, "linux/amd64", addLayer(t, from, file("etc/a", "one")), addLayer(t, from, file("etc/b", "two")), reg)
	if err := from.Commit(t.Context(), names(t, "b"), b); err != nil {
		t.Fatal(err)
	}
	base, err := from.ImageInventory(t.Context(), "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	without := inventory.Set{}
	without.Add(base)
	return from, to, save(t, from, store.SaveOptions{Without: without}, "b")
}

func TestLoadDelta(t *testing.T) {
	t.Parallel()
	from, to, delta := deltaOf(t)
	loaded, err := to.Load(t.Context(), bytes.NewReader(delta))
	if err != nil || len(loaded) != 1 {
		t.Fatalf("%d images, %v", len(loaded), err)
	}
	want, err := from.Image(t.Context(), "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if loaded[0].ID != want.ID {
		t.Errorf("image %s, want %s", loaded[0].ID, want.ID)
	}
	if v, err := to.Verify(t.Context(), "b", store.VerifyOptions{}); err != nil || len(v.Faults) > 0 {
		t.Errorf("verify: %v, %v", v.Faults, err)
	}
	list := strings.TrimPrefix(untar(t, delta)[2].name, "blobs/sha256/")
	if got, _ := held(t, to); slices.Contains(got, list) {
		t.Error("the list of the blobs that were left out is kept")
	}
}

func TestLoadRefusesDelta(t *testing.T) {
	t.Parallel()
	_, _, delta := deltaOf(t)
	files := untar(t, delta)
	if !strings.HasPrefix(files[2].content, "sealer inventory") {
		t.Fatalf("the list of the blobs that were left out does not come first: %s", files[2].name)
	}
	listed := func(list string) []entry {
		out := append([]entry{}, files...)
		d := digest.FromString(list).Encoded()
		old := strings.TrimPrefix(files[2].name, "blobs/sha256/")
		out[1].content = strings.ReplaceAll(files[1].content, old, d)
		out[2] = file("blobs/sha256/"+d, list)
		return out
	}
	wrong := append([]entry{}, files...)
	wrong[2].content += "x"
	path := append([]entry{}, files...)
	path[1].content = strings.ReplaceAll(files[1].content, strings.TrimPrefix(files[2].name, "blobs/sha256/"), "../../../etc/passwd")
	for name, tc := range map[string]struct {
		files []entry
		full  bool // the store has the base
		want  error
		text  string
	}{
		"lacks the base":  {files, false, store.ErrLacks, "of the"},
		"no list":         {append(append([]entry{}, files[:2]...), files[3:]...), true, store.ErrInvalid, "without the list"},
		"list at the end": {append(append([]entry{}, files[3:]...), files[:3]...), true, nil, ""},
		"list before":     {append([]entry{files[2]}, append(append([]entry{}, files[:2]...), files[3:]...)...), true, store.ErrInvalid, "not before the others"},
		"list changed":    {wrong, true, store.ErrMismatch, "its digest is"},
		"list cut":        {listed(files[2].content[:60]), true, store.ErrInvalid, "cut short"},
		"list of another": {listed(strings.Replace(files[2].content, "inventory 1", "inventory 2", 1)), true, store.ErrInvalid, `version "2"`},
		"no inventory":    {listed("hello"), true, store.ErrInvalid, "does not begin with"},
		"list as a path":  {path, true, store.ErrInvalid, "without the list"},
		"an empty list":   {listed(emptyList(t)), false, store.ErrNotFound, ""},
		"a blob less":     {files[:len(files)-1], true, store.ErrNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			if tc.full {
				commit(t, s, "a", "one")
			}
			blobs, layers := 0, 0
			if tc.full {
				b, l := held(t, s)
				blobs, layers = len(b), len(l)
			}
			_, err := s.Load(t.Context(), bytes.NewReader(archiveOf(t, tc.files...)))
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Load: %v, want %v %q", err, tc.want, tc.text)
			}
			if tc.want == nil {
				return
			}
			if b, l := held(t, s); len(b) != blobs || len(l) != layers {
				t.Errorf("a load that failed left %d blobs and %d layers of %d and %d", len(b), len(l), blobs, layers)
			}
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func emptyList(t testing.TB) string {
	b, err := new(inventory.Inventory).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A blob that is listed with another size is damaged there, and travels.
func TestSaveDoesNotTrustSizes(t *testing.T) {
	t.Parallel()
	from, _, _ := deltaOf(t)
	v, err := from.Inventory(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	for i := range v.Blobs {
		v.Blobs[i].Size++
	}
	without := inventory.Set{}
	without.Add(v)
	if !bytes.Equal(save(t, from, store.SaveOptions{Without: without}, "b"), save(t, from, store.SaveOptions{}, "b")) {
		t.Error("blobs of other sizes were left out")
	}
}

// The inventory of an archive is that of a store that loaded it.
func TestReadArchiveInventory(t *testing.T) {
	t.Parallel()
	_, to, delta := deltaOf(t)
	if _, err := to.Load(t.Context(), bytes.NewReader(delta)); err != nil {
		t.Fatal(err)
	}
	want, err := to.ImageInventory(t.Context(), "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantBytes, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := store.ReadArchiveInventory(t.Context(), bytes.NewReader(delta))
	if err != nil {
		t.Fatal(err)
	}
	gotBytes, err := got.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(gotBytes, wantBytes) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
	files := untar(t, delta)
	for name, bad := range map[string][]entry{"no index": files[2:], "no list": append(append([]entry{}, files[:2]...), files[3:]...)} {
		if _, err := store.ReadArchiveInventory(t.Context(), bytes.NewReader(archiveOf(t, bad...))); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
