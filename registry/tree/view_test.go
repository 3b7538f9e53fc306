package tree_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/tree"
)

// written makes the tree of d in a directory.
func written(t testing.TB, d *tree.Document) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layer")
	if err := tree.Prepare(dir, d); err != nil {
		t.Fatal(err)
	}
	err := tree.Place(dir, d, func(d digest.Digest, path string) error { return os.WriteFile(path, []byte(d), 0o444) })
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, tree.Root)
}

// nested has repositories inside a repository, and one whose name is the
// beginning of another's.
func nested() *tree.Document {
	a, b, c := digest.FromString("a"), digest.FromString("b"), digest.FromString("c")
	revisions := func(of ...digest.Digest) (out []tree.Revision) {
		for _, d := range of {
			out = append(out, tree.Revision{Digest: d, MediaType: "m", Size: 1})
		}
		return out
	}
	return &tree.Document{
		Repositories: []tree.Repository{
			{Name: "team", Revisions: revisions(a)},
			{Name: "team/app", Tags: []tree.Tag{{Name: "v1", Digest: a}, {Name: "latest", Digest: b}, {Name: "v10", Digest: b}}, Revisions: revisions(a, b), Layers: []digest.Digest{c}},
			{Name: "team/app/deep/er", Revisions: revisions(a), Layers: []digest.Digest{c, b}},
			{Name: "team-x/y", Revisions: revisions(b)},
			{Name: "team/app-two", Revisions: revisions(b)},
		},
		Blobs: []tree.Blob{{Digest: a, Size: 1}, {Digest: b, Size: 1}, {Digest: c, Size: 1}},
	}
}

// A view has what the tree has on the disk, and nothing else.
func TestView(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*tree.Document{"sample": sample(), "nested": nested(), "no blobs": {Repositories: nested().Repositories}} {
		root := written(t, d)
		if _, _, err := d.Encode(); err != nil { // it sorts
			t.Fatal(err)
		}
		v := tree.NewView(d)
		count := 0
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			in, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			n, ok := v.Node(in)
			if !ok || n.IsDir() != e.IsDir() {
				t.Errorf("%s: %s: %v, %+v", name, in, ok, n)
				return nil
			}
			if e.IsDir() {
				entries, err := os.ReadDir(path)
				var names []string
				for _, e := range entries {
					names = append(names, e.Name())
				}
				if diff := cmp.Diff(names, n.Names); diff != "" {
					t.Errorf("%s: %s (-disk +view):\n%s", name, in, diff)
				}
				for _, wrong := range []string{"none", "_layers2", "link", "0", "sha25", "data"} {
					if _, ok := v.Node(in + "/" + wrong); ok && !slices.Contains(names, wrong) {
						t.Errorf("%s: the view has %s/%s", name, in, wrong)
					}
				}
				count++
				return err
			}
			content, err := os.ReadFile(path)
			if string(content) != string(n.Link+n.Blob) {
				t.Errorf("%s: %s is %q, in the view %+v", name, in, content, n)
			}
			if n.Blob == "" {
				count++
			}
			if _, ok := v.Node(in + "/x"); ok {
				t.Errorf("%s: the view has something in the file %s", name, in)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Weight(); got < count-10 || got > count {
			t.Errorf("%s: Weight() = %d, %d files and directories on the disk", name, got, count)
		}
		for _, path := range []string{"", "docker2", "docker/registry/v2x", "docker/registry/v2/other", "docker/registry/v2/repositories/tea", "..", "/docker"} {
			if _, ok := v.Node(path); ok {
				t.Errorf("%s: the view has %q", name, path)
			}
		}
	}
}
