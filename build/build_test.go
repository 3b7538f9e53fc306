package build_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.ChildArgument {
		os.Exit(sandbox.Child())
	}
	os.Exit(m.Run())
}

// write makes the files of a build context.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		perm := os.FileMode(0o644)
		if strings.HasPrefix(content, "#!") {
			perm = 0o755
		}
		if err := os.WriteFile(p, []byte(content), perm); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func open(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// run builds context in s.
func run(ctx context.Context, t testing.TB, s *store.Store, dir string, o build.Options) (*build.Result, error) {
	t.Helper()
	c, err := remote.New(remote.Options{RegistriesConf: os.DevNull})
	if err != nil {
		t.Fatal(err)
	}
	o.Context = dir
	return build.Build(ctx, s, c, o)
}

// tree lists the files that a build's layers hold, with their content; a
// directory ends with a slash.
func tree(t testing.TB, s *store.Store, r *build.Result) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, l := range r.Images[0].Config.Layers {
		dir := s.LayerDir(l.ID)
		err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
			if err != nil || p == dir {
				return err
			}
			name, _ := filepath.Rel(dir, p)
			switch {
			case d.IsDir():
				out[name+"/"] = ""
			case d.Type()&os.ModeSymlink != 0:
				link, err := os.Readlink(p)
				out[name] = "-> " + link
				return err
			default:
				b, err := os.ReadFile(p)
				out[name] = string(b)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// clean fails when a build left temporaries or a visible image.
func clean(t testing.TB, s *store.Store) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Root(), "tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "session") {
			t.Errorf("left behind: %s", e.Name())
		}
	}
	images, err := s.Images(t.Context())
	if err != nil || len(images) > 0 {
		t.Errorf("a failed build left images: %v, %v", images, err)
	}
}
