package archive

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A file whose content did not come to the disk does not take the place of the
// good one.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		write func(io.Writer) error
		want  string
	}{
		"good":    {func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }, "new"},
		"fails":   {func(w io.Writer) error { _, _ = io.WriteString(w, "new"); return io.ErrUnexpectedEOF }, "old"},
		"no sync": {func(w io.Writer) error { _, _ = io.WriteString(w, "new"); return w.(*os.File).Close() }, "old"},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "out.tar")
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		err := WriteFile(file, 0o600, tc.write)
		if (err == nil) != (tc.want == "new") {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != tc.want {
			t.Errorf("%s: the file is %q, %v", name, b, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: left: %v, %v", name, entries, err)
		}
		if fi, err := os.Stat(file); tc.want == "new" && (err != nil || fi.Mode() != fs.FileMode(0o600)) {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
}
