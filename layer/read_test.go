package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestReadLimits reads a blob that unpacks to more than it may.
func TestReadLimits(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := writeTar(file("a", strings.Repeat("x", 1000)), file("b", "y"))(&b); err != nil {
		t.Fatal(err)
	}
	size := int64(b.Len())
	for name, tc := range map[string]struct {
		o    Options
		size int64
		want error
	}{
		"as it is":                {Options{}, size, nil},
		"exactly":                 {Options{Limits: Limits{Unpacked: size}}, size, nil},
		"a byte more than it may": {Options{Limits: Limits{Unpacked: size - 1}}, size, ErrLimit},
		"entries, exactly":        {Options{Limits: Limits{Entries: 2}}, size, nil},
		"entries":                 {Options{Limits: Limits{Entries: 1}}, size, ErrLimit},
		"files, exactly":          {Options{Limit: 1001}, size, nil},
		"files":                   {Options{Limit: 1000}, size, ErrInvalid},
		"a large image":           {Options{Limit: 1 << 30}, size, nil}, // whose layers may be larger than any small blob's
	} {
		if _, err := Read(t.Context(), t.TempDir(), bytes.NewReader(b.Bytes()), tc.size, tc.o); !errors.Is(err, tc.want) || err != nil && tc.want == nil {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	for most, want := range map[int64]error{3: nil, 2: ErrLimit} {
		tarball := tarOf(&tar.Header{Typeflag: tar.TypeDir, Name: "abc/", Mode: 0o755})
		if _, err := Read(t.Context(), t.TempDir(), bytes.NewReader(tarball), size, Options{Limits: Limits{Names: most}}); !errors.Is(err, want) || err != nil && want == nil {
			t.Errorf("a name of 3 bytes, %d may be: %v", most, err)
		}
	}
	for _, tc := range []struct{ compressed, want int64 }{{0, 1 << 30}, {1 << 20, 1 << 30}, {10 << 20, 2000 << 20}} {
		if got := MaxContent(tc.compressed); got != tc.want {
			t.Errorf("MaxContent(%d) = %d, want %d", tc.compressed, got, tc.want)
		}
	}
}

// TestDecompress reads what other programs write, and what none does.
func TestDecompress(t *testing.T) {
	t.Parallel()
	var z bytes.Buffer
	w, err := Compress(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "text"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	skippable := append([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}, z.Bytes()...)
	for name, tc := range map[string]struct{ in, want string }{
		"zstd":                     {z.String(), "text"},
		"a skippable frame first":  {string(skippable), "text"},
		"almost a skippable frame": {"\x6a\x2a\x4d\x18text", "\x6a\x2a\x4d\x18text"},
		"plain":                    {"text", "text"},
		"short":                    {"\x50", "\x50"},
		"empty":                    {"", ""},
	} {
		r, err := Decompress(strings.NewReader(tc.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil || string(got) != tc.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := Decompress(strings.NewReader("\x1f\x8b no gzip")); !errors.Is(err, ErrInvalid) {
		t.Errorf("broken gzip: %v", err)
	}
	broken := errors.New("disk")
	if _, err := Decompress(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("a broken disk: %v", err)
	}
}

// TestCompare damages a layer in all ways.
func TestCompare(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		damage func(dir string) error
		path   string
		want   string // in the difference's text
		more   int    // differences of other names of the file
	}{
		"nothing": {damage: func(string) error { return nil }},
		"content": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/f"), []byte("y"), 0o644) }, "a/f", "its content differs", 1},
		"gone":    {func(dir string) error { return os.Remove(filepath.Join(dir, "a/f")) }, "a/f", fs.ErrNotExist.Error(), 0},
		"more":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a/g"), nil, 0o644) }, "a/g", "not in the layer", 0},
		"target": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "l")), os.Symlink("a", filepath.Join(dir, "l")))
		}, "l", `it points at "a", want "a/f"`, 0},
		"type": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "l")), os.WriteFile(filepath.Join(dir, "l"), nil, 0o777))
		}, "l", "it is a", 0},
		"mode":         {func(dir string) error { return os.Chmod(filepath.Join(dir, "a/f"), 0o600) }, "a/f", "mode 600, want 644", 1},
		"deletion":     {func(dir string) error { return os.WriteFile(filepath.Join(dir, ".wh.gone"), []byte("x"), 0o644) }, ".wh.gone", "its content differs", 0},
		"no deletion":  {func(dir string) error { return os.Remove(filepath.Join(dir, ".wh.gone")) }, ".wh.gone", fs.ErrNotExist.Error(), 0},
		"not opaque":   {func(dir string) error { return os.Remove(filepath.Join(dir, "a/.wh..wh..opq")) }, "a/.wh..wh..opq", fs.ErrNotExist.Error(), 0},
		"second link":  {func(dir string) error { return os.Remove(filepath.Join(dir, "hard")) }, "hard", fs.ErrNotExist.Error(), 0},
		"its own link": {func(dir string) error { return os.Remove(filepath.Join(dir, "b")) }, "b", fs.ErrNotExist.Error(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "mode" && os.Geteuid() != 0 {
				t.Skip("a user's layers have modes of their own")
			}
			l, err := write(t, Options{}, writeTar(
				entry{name: "a/"}, file("a/f", "x"), entry{name: "l", link: "a/f"}, entry{name: "hard", hard: "a/f"}, file("b", "z"), entry{name: "b", hard: "b"},
				file(".wh.gone", ""), file("a/.wh..wh..opq", ""), entry{name: ".wh..wh.plnk/"},
			))
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.damage(l.dir); err != nil {
				t.Fatal(err)
			}
			got, err := Compare(t.Context(), l.dir, open(t, l.blob), Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if tc.path == "" && len(got) > 0 || tc.path != "" && (len(got) == 0 || len(got) != 1+tc.more || got[0].Path != tc.path || !strings.Contains(got[0].Err.Error(), tc.want)) {
				t.Errorf("%v, want %s: %s", got, tc.path, tc.want)
			}
		})
	}
	if _, err := Compare(t.Context(), t.TempDir(), strings.NewReader("no tar"), Limits{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no tar: %v", err)
	}
	if _, err := Compare(t.Context(), filepath.Join(t.TempDir(), "none"), bytes.NewReader(tarOf()), Limits{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no layer: %v", err)
	}
}

func TestComparePaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"a", "a", 0}, {"a", "b", -1}, {"b", "a", 1}, {"a/b", "a-b", -1}, {"a-b", "a/b", 1}, {"a", "a/b", -1}, {"a/b", "a", 1}} {
		if got := comparePaths(tc.a, tc.b); got != tc.want {
			t.Errorf("comparePaths(%s, %s) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}

func TestCopyAndFill(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	text := strings.Repeat("x", BufferSize+1)
	var out bytes.Buffer
	if n, err := Copy(&out, iotest.DataErrReader(strings.NewReader(text))); err != nil || n != int64(len(text)) || out.String() != text {
		t.Errorf("Copy: %d, %v", n, err)
	}
	if n, err := Copy(io.Discard, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken))); n != 3 || !errors.Is(err, broken) {
		t.Errorf("Copy of a broken reader: %d, %v", n, err)
	}
	r, w := io.Pipe()
	_ = r.CloseWithError(broken)
	if n, err := Copy(w, strings.NewReader("abc")); n != 0 || !errors.Is(err, broken) {
		t.Errorf("Copy to a broken writer: %d, %v", n, err)
	}
	buf := make([]byte, 4)
	for _, tc := range []struct {
		in   io.Reader
		want string
		err  error
	}{
		{iotest.OneByteReader(strings.NewReader("abcdef")), "abcd", nil},
		{strings.NewReader("abcd"), "abcd", nil},
		{strings.NewReader("ab"), "ab", io.EOF},
		{io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(io.ErrUnexpectedEOF)), "ab", io.ErrUnexpectedEOF},
	} {
		n, err := Fill(tc.in, buf)
		if got := string(buf[:n]); !cmp.Equal(got, tc.want) || !errors.Is(err, tc.err) || err != nil && tc.err == nil {
			t.Errorf("Fill: %q, %v; want %q, %v", got, err, tc.want, tc.err)
		}
	}
}
