package layer

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A directory that a later entry replaces takes the entries in it along, and not
// those that come after.
func TestCompareReplaced(t *testing.T) {
	t.Parallel()
	file := func(name string) *tar.Header { return &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644} }
	dir := func(name string) *tar.Header { return &tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
	for name, entries := range map[string][]*tar.Header{
		"by a file":          {dir("a"), file("a/b/c"), file("a.b"), file("a")},
		"and back":           {dir("a"), file("a/old"), file("a"), dir("a"), file("a/new")},
		"inner, then outer":  {dir("a"), dir("a/b"), file("a/b/old"), file("a/b"), dir("a/b"), file("a/b/new"), file("a")},
		"outer, then inner":  {dir("a"), file("a"), dir("a"), dir("a/b"), file("a/b/old"), file("a/b"), file("a-b")},
		"beside its name":    {dir("a"), file("a/x"), file("a-x"), file("a0"), file("a")},
		"by a link":          {file("z"), dir("a"), file("a/x"), {Name: "a", Typeflag: tar.TypeLink, Linkname: "z"}},
		"again and again":    {dir("a"), file("a/1"), file("a"), dir("a"), file("a/2"), file("a"), dir("a"), file("a/3")},
		"directory kept":     {dir("a"), file("a/1"), dir("a"), file("a/2")},
		"replaced, not kept": {dir("a"), dir("a/b"), file("a/b/c"), file("a"), dir("a"), dir("a/b")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layer bytes.Buffer
			tw := tar.NewWriter(&layer)
			for _, h := range entries {
				if err := tw.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := tw.Close(); err != nil {
				t.Fatal(err)
			}
			to := t.TempDir()
			if err := os.Chmod(to, 0o755); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(t.Context(), to, bytes.NewReader(layer.Bytes()), int64(layer.Len()), Options{}); err != nil {
				t.Fatal(err)
			}
			got, err := Compare(t.Context(), to, bytes.NewReader(layer.Bytes()), Limits{})
			if err != nil || len(got) > 0 {
				t.Errorf("%v, %v", got, err)
			}
			extra := filepath.Join(to, "extra")
			if err := os.WriteFile(extra, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := Compare(t.Context(), to, bytes.NewReader(layer.Bytes()), Limits{}); err != nil || len(got) != 1 || got[0].Path != "extra" {
				t.Errorf("with a file more: %v, %v", got, err)
			}
		})
	}
}
