package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/layer"
)

// content is packed by the tests. Its length is no multiple of any part's size.
var content = func() []byte {
	var b bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&b, "%x", sha256.Sum256([]byte{byte(i)}))
	}
	return b.Bytes()[:100_001]
}()

func create(t *testing.T, o archive.WriteOptions) (name string, files []archive.File) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "v1.tar")
	files, err := archive.Create(name, o, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		t.Fatal(err)
	}
	return name, files
}

// read returns the content of an archive as store.Load reads it.
func read(o archive.ReadOptions, names ...string) (out []byte, err error) {
	err = archive.Read(names, o, func(r io.Reader) error {
		plain, err := layer.Decompress(r)
		if err != nil {
			return err
		}
		defer plain.Close()
		out, err = io.ReadAll(plain)
		return err
	})
	return out, err
}

func TestParts(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		o     archive.WriteOptions
		parts int
	}{
		"one file":        {archive.WriteOptions{}, 0},
		"compressed":      {archive.WriteOptions{Compress: true}, 0},
		"parts":           {archive.WriteOptions{Split: 30_000}, 4},
		"a full part":     {archive.WriteOptions{Split: 100_001}, 1},
		"a byte too many": {archive.WriteOptions{Split: 100_000}, 2},
		"compressed too":  {archive.WriteOptions{Split: 5_000, Compress: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, files := create(t, tc.o)
			dir := filepath.Dir(file)
			for _, f := range files {
				b, err := os.ReadFile(f.Name)
				if err != nil || int64(len(b)) != f.Size || fmt.Sprintf("%x", sha256.Sum256(b)) != f.Digest.Encoded() {
					t.Errorf("%s: %d bytes, %v", f.Name, len(b), err)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != len(files) {
				t.Errorf("%d files, want %d, %v", len(left), len(files), err)
			}
			ways := [][]string{{file}}
			if tc.parts > 0 {
				if len(files) != tc.parts+1 {
					t.Errorf("%d files, want %d parts and their checksums", len(files), tc.parts)
				}
				var all []string
				for _, f := range files[:tc.parts] {
					all = append([]string{f.Name}, all...) // any order
				}
				ways = [][]string{{dir}, {file + ".sha256"}, all, all[:1]}
			}
			for _, way := range ways {
				if got, err := read(archive.ReadOptions{}, way...); err != nil || !bytes.Equal(got, content) {
					t.Errorf("%v: %d bytes, %v", way, len(got), err)
				}
			}
		})
	}
}

func TestBadParts(t *testing.T) {
	t.Parallel()
	remove := func(n string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, n)) }
	}
	change := func(n string, f func([]byte) []byte) func(string) error {
		return func(dir string) error {
			b, err := os.ReadFile(filepath.Join(dir, n))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, n), f(b), 0o600)
		}
	}
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	swap := func(old, new string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(old), []byte(new)) }
	}
	const list = "v1.tar.sha256"
	for name, tc := range map[string]struct {
		break_ func(dir string) error
		want   error
		text   string
	}{
		"first missing":   {remove("v1.tar.part0001"), archive.ErrMissing, "missing of 4 parts: v1.tar.part0001"},
		"last missing":    {remove("v1.tar.part0004"), archive.ErrMissing, "missing of 4 parts: v1.tar.part0004"},
		"first damaged":   {change("v1.tar.part0001", flip), archive.ErrDamaged, "v1.tar.part0001 is damaged: its SHA-256 is"},
		"last damaged":    {change("v1.tar.part0004", flip), archive.ErrDamaged, "v1.tar.part0004 is damaged"},
		"one short":       {change("v1.tar.part0002", func(b []byte) []byte { return b[:100] }), archive.ErrDamaged, "v1.tar.part0002 is damaged"},
		"one long":        {change("v1.tar.part0002", func(b []byte) []byte { return append(b, 0) }), archive.ErrDamaged, "v1.tar.part0002 is damaged"},
		"a line gone":     {change(list, func(b []byte) []byte { return b[75+7:] }), archive.ErrInvalid, "line 1:"},
		"a line too many": {change(list, func(b []byte) []byte { return append(b, b[:82]...) }), archive.ErrInvalid, "line 5:"},
		"a path":          {change(list, swap("  v1.tar.part0002", "  ../v1.tar.part0002")), archive.ErrInvalid, "line 2: want a SHA-256"},
		"no list":         {change(list, func([]byte) []byte { return nil }), archive.ErrInvalid, "line 1: want a SHA-256"},
		"two lists":       {func(dir string) error { return os.WriteFile(filepath.Join(dir, "b.sha256"), nil, 0o600) }, archive.ErrInvalid, "2 files of checksums"},
		"list missing":    {remove(list), archive.ErrInvalid, "has no file of checksums"},
		"a directory": {func(dir string) error {
			p := filepath.Join(dir, "v1.tar.part0003")
			return errors.Join(os.Remove(p), os.Mkdir(p, 0o700))
		}, archive.ErrInvalid, "no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, _ := create(t, archive.WriteOptions{Split: 30_000})
			if err := tc.break_(filepath.Dir(file)); err != nil {
				t.Fatal(err)
			}
			if _, err := read(archive.ReadOptions{}, filepath.Dir(file)); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%v, want %v %q", err, tc.want, tc.text)
			}
		})
	}
}

// The reader of an archive that fails on damaged content hears of the part, also
// when the damage is behind the place where it noticed.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	file, _ := create(t, archive.WriteOptions{Split: 30_000})
	name := file + ".part0002"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[10] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong digest")
	err = archive.Read([]string{filepath.Dir(file)}, archive.ReadOptions{}, func(r io.Reader) error {
		if _, err := io.CopyN(io.Discard, r, 30_100); err != nil {
			return err
		}
		return wrong
	})
	if !errors.Is(err, archive.ErrDamaged) || !errors.Is(err, wrong) || !strings.Contains(err.Error(), "part0002") {
		t.Errorf("%v", err)
	}
	err = archive.Read([]string{filepath.Dir(file)}, archive.ReadOptions{}, func(io.Reader) error { return wrong })
	if !errors.Is(err, wrong) || errors.Is(err, archive.ErrDamaged) {
		t.Errorf("a part before the damage: %v", err)
	}
}

// Without the file of checksums the parts are in the order of their numbers.
func TestPartsWithoutChecksums(t *testing.T) {
	t.Parallel()
	file, files := create(t, archive.WriteOptions{Split: 30_000})
	if err := os.Remove(file + ".sha256"); err != nil {
		t.Fatal(err)
	}
	got, err := read(archive.ReadOptions{}, files[3].Name, files[0].Name, files[2].Name, files[1].Name)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := read(archive.ReadOptions{}, files[0].Name, files[2].Name); !errors.Is(err, archive.ErrMissing) || !strings.Contains(err.Error(), "part0002") {
		t.Errorf("%v", err)
	}
	if _, err := read(archive.ReadOptions{}, files[0].Name, filepath.Join(filepath.Dir(file), "other.part0002")); !errors.Is(err, archive.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// A write that fails leaves the files of the one before as they are.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	for _, split := range []int64{0, 30_000} {
		dir := t.TempDir()
		name := filepath.Join(dir, "v1.tar")
		want := io.ErrClosedPipe
		_, err := archive.Create(name, archive.WriteOptions{Split: split}, func(w io.Writer) error {
			if _, err := w.Write(content[:90_000]); err != nil {
				return err
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("%v", err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left %v, %v", left, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"1": 1, "1B": 1, "4GiB": 4 << 30, "4G": 4 << 30, "700MB": 700e6, "1KiB": 1024, "2K": 2048, "1KB": 1000, "1TiB": 1 << 40,
		"": 0, "0": 0, "-1": 0, "x": 0, "4Gi": 0, "4iB": 0, "4GB ": 0, "4.5GiB": 0, "9999999999TiB": 0, "4BB": 0, "4GMB": 0, "1EiB": 0,
	} {
		got, err := archive.ParseSize(in)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
}

func TestLayoutDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"index.json": "{}", "oci-layout": "l", "blobs/sha256/aa": "blob", "secret": "s"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := read(archive.ReadOptions{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	r := tar.NewReader(bytes.NewReader(b))
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name)
	}
	if want := "oci-layout index.json blobs/sha256/aa"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "blobs/sha256/bb")); err != nil {
		t.Skip(err)
	}
	if _, err := read(archive.ReadOptions{}, dir); err == nil {
		t.Error("a link out of the layout was followed")
	}
}
