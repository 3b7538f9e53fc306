package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// entry is an entry of a tar; the zero type is told by the other fields.
type entry struct {
	name, content, link, hard string
	mode                      int64
	uid, gid                  int
	typ                       byte
	time                      time.Time // zero is a second after the epoch
}

func file(name, content string) entry { return entry{name: name, content: content} }

func writeTar(entries ...entry) func(io.Writer) error {
	return func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, e := range entries {
			h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.content)), ModTime: time.Unix(1, 0), Typeflag: tar.TypeReg, Uid: e.uid, Gid: e.gid}
			switch {
			case e.typ != 0:
				h.Typeflag = e.typ
			case e.link != "":
				h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
			case e.hard != "":
				h.Typeflag, h.Linkname = tar.TypeLink, e.hard
			case strings.HasSuffix(e.name, "/"):
				h.Typeflag, h.Mode = tar.TypeDir, 0o755
			}
			if e.mode != 0 {
				h.Mode = e.mode
			}
			if !e.time.IsZero() {
				h.ModTime = e.time
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

// written is a layer that Write made.
type written struct {
	Result
	dir, blob string
}

// write makes a layer beside a file that it may not reach.
func write(t *testing.T, o Options, tarball func(io.Writer) error) (written, error) {
	t.Helper()
	base := t.TempDir()
	w := written{dir: filepath.Join(base, "layer"), blob: filepath.Join(base, "blob")}
	if err := errors.Join(os.WriteFile(filepath.Join(base, "secret"), []byte("untouched"), 0o600), os.Mkdir(w.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	blob, err := os.Create(w.blob)
	if err != nil {
		t.Fatal(err)
	}
	w.Result, err = Write(t.Context(), w.dir, blob, o, tarball)
	if err := blob.Close(); err != nil {
		t.Fatal(err)
	}
	b, serr := os.ReadFile(filepath.Join(base, "secret"))
	fi, ferr := os.Stat(filepath.Join(base, "secret"))
	if serr != nil || ferr != nil || string(b) != "untouched" || fi.Mode() != 0o600 {
		t.Errorf("the file outside: %q, %v, %v", b, fi, serr)
	}
	if entries, derr := os.ReadDir(base); derr != nil || len(entries) != 3 {
		t.Errorf("beside the layer: %v, %v", entries, derr)
	}
	return w, err
}

// open opens a file that the test closes.
func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // Write may have closed it
	return f
}

// regular returns the contents of the files below dir, links to files included.
func regular(t *testing.T, dir string) map[string]string {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	out := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := root.ReadFile(p)
		if err == nil {
			out[p] = string(b)
		} else if d.Type().IsRegular() {
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDeep unpacks a directory as deep as the kernel's paths reach, with no entry
// for the directories above it. A deeper one is refused.
func TestDeep(t *testing.T) {
	t.Parallel()
	if _, err := write(t, Options{}, writeTar(entry{name: strings.Repeat("d/", 2048) + "file"})); !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v of a path that is too long, want ErrInvalid", err)
	}
	name := strings.Repeat("d/", 2046) + "file"
	l, err := write(t, Options{}, writeTar(entry{name: name}))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if _, err := root.Stat(name); err != nil {
		t.Error(err)
	}
}

// TestAttributesOfFiles has owners, modes and times as the tar gives them.
func TestAttributesOfFiles(t *testing.T) {
	t.Parallel()
	when := time.Unix(1_000_000_000, 0)
	l, err := write(t, Options{}, writeTar(
		entry{name: "d/", mode: 0o2770, uid: 12, gid: 34, time: when}, entry{name: "d/f", content: "x", mode: 0o4755, uid: 12, gid: 34, time: when},
		entry{name: "g", content: "x", mode: 0o600, gid: 34, time: when}, entry{name: "l", link: "d/f", uid: 12}, entry{name: "no/parent", content: "x", mode: 0o644, time: when},
		entry{name: "epoch", time: time.Unix(0, 0)},
	))
	if err != nil {
		t.Fatal(err)
	}
	root := os.Geteuid() == 0
	for name, want := range map[string]struct {
		mode     fs.FileMode
		uid, gid int
		when     time.Time
	}{
		"d":     {fs.ModeDir | fs.ModeSetgid | 0o770, 12, 34, when},
		"d/f":   {fs.ModeSetuid | 0o755, 12, 34, when},
		"g":     {0o600, 0, 34, when},
		"l":     {fs.ModeSymlink | 0o777, 12, 0, time.Time{}},
		"no":    {fs.ModeDir | 0o755, 0, 0, time.Time{}},
		"epoch": {0o644, 0, 0, time.Unix(0, 0)},
	} {
		fi, err := os.Lstat(filepath.Join(l.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if fi.Mode() != want.mode || !want.when.IsZero() && !fi.ModTime().Equal(want.when) {
			t.Errorf("%s: %v at %v, want %v at %v", name, fi.Mode(), fi.ModTime(), want.mode, want.when)
		}
		if root && !owned(fi, want.uid, want.gid) {
			t.Errorf("%s does not belong to %d:%d: %+v", name, want.uid, want.gid, fi.Sys())
		}
	}
	if owned(mustStat(t, filepath.Join(l.dir, "g")), -1, 34) || owned(mustStat(t, filepath.Join(l.dir, "g")), os.Geteuid(), -1) {
		t.Error("a file belongs to everybody")
	}
}

func mustStat(t *testing.T, name string) fs.FileInfo {
	t.Helper()
	fi, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi
}

// TestAvailableBuffer writes out of the writer's own buffer, however the writes lie
// to the pieces.
func TestAvailableBuffer(t *testing.T) {
	t.Parallel()
	var tarball bytes.Buffer
	if err := writeTar(file("big", strings.Repeat("some text that repeats ", 600_000)))(&tarball); err != nil {
		t.Fatal(err)
	}
	want := digest.FromBytes(tarball.Bytes())
	for _, step := range []int{1000, 256 << 10, 5 << 20} {
		l, err := write(t, Options{}, func(w io.Writer) error {
			own := w.(interface{ AvailableBuffer() []byte })
			for rest := tarball.Bytes(); len(rest) > 0; {
				b := append(own.AvailableBuffer(), rest[:min(step, len(rest))]...)
				if n, err := w.Write(b); err != nil || n != len(b) {
					return fmt.Errorf("wrote %d of %d: %w", n, len(b), err)
				}
				rest = rest[len(b):]
			}
			return nil
		})
		if err != nil || l.ID != want {
			t.Errorf("%d bytes at a time: %s, %v; want %s", step, l.ID, err, want)
		}
	}
}

// TestCompressions writes and reads layers of several pieces in each compression.
func TestCompressions(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("some text that repeats ", 600_000)
	tarball := writeTar(file("big", big), file("small", "x"), entry{name: "empty/"})
	var ids []digest.Digest
	for _, c := range []string{CompressionZstd, CompressionGzip, CompressionNone} {
		flushed := 0
		l, err := write(t, Options{Compression: c, WriteBack: func() { flushed++ }}, tarball)
		if err != nil {
			t.Fatal(err)
		}
		if l.Size != int64(len(big))+1 || flushed != 0 {
			t.Errorf("%s: size %d, %d times flushed", c, l.Size, flushed)
		}
		b, err := os.ReadFile(l.blob)
		if err != nil || digest.FromBytes(b) != l.Blob.Digest || int64(len(b)) != l.Blob.Size {
			t.Errorf("%s: the blob has %d bytes, %v; want %v", c, len(b), err, l.Blob)
		}
		dir := t.TempDir()
		got, err := Read(t.Context(), dir, bytes.NewReader(b), int64(len(b)), Options{})
		if err != nil || got.ID != l.ID || got.Size != l.Size {
			t.Errorf("%s: read %+v, %v; want %+v", c, got, err, l.Result)
		}
		if files := regular(t, dir); files["big"] != big || files["small"] != "x" {
			t.Errorf("%s: unpacked otherwise", c)
		}
		ids = append(ids, l.ID)
	}
	if len(slices.Compact(slices.Clone(ids))) != 1 {
		t.Errorf("IDs differ with the compression: %v", ids)
	}
	if _, err := write(t, Options{Compression: "rar"}, tarball); err == nil {
		t.Error("rar")
	}
}

// TestWriteBack counts the calls for a layer of a little more than 64 MiB.
func TestWriteBack(t *testing.T) {
	t.Parallel()
	calls := 0
	piece := make([]byte, pieceSize)
	_, err := write(t, Options{WriteBack: func() { calls++ }}, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Name: "zeros", Size: (flushPieces + 1) * pieceSize, Mode: 0o644, Typeflag: tar.TypeReg})
		for range flushPieces + 1 {
			if err == nil {
				_, err = tw.Write(piece)
			}
		}
		return errors.Join(err, tw.Close())
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("source broke")
	var taken int // of the write that fails
	for name, tc := range map[string]struct {
		write func(io.Writer) error
		want  error
		text  string
	}{
		"nothing":     {func(io.Writer) error { return nil }, nil, "nothing was written"},
		"source":      {func(w io.Writer) error { _ = writeTar(file("a", "1"))(w); return broken }, broken, ""},
		"in a header": {func(w io.Writer) error { _, _ = w.Write([]byte("half a header")); return broken }, broken, ""},
		"cut":         {func(w io.Writer) error { _, err := w.Write(make([]byte, 100)); return err }, ErrInvalid, ""},
		"no tar":      {func(w io.Writer) error { _, err := w.Write(bytes.Repeat([]byte("x"), 2048)); return err }, ErrInvalid, ""},
		"cancelled":   {func(io.Writer) error { return context.Canceled }, context.Canceled, ""},
		"endless": {func(w io.Writer) error { // the tar is refused long before its end
			if err := writeTar(file("../x", "1"))(w); err != nil {
				return err
			}
			for {
				n, err := w.Write(make([]byte, 1<<20))
				if err != nil {
					taken = n
					return fmt.Errorf("write: %w", err)
				}
			}
		}, ErrInvalid, "leads out of the layer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := write(t, Options{}, tc.write)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Write: %v, want %v %s", err, tc.want, tc.text)
			}
			if taken < 0 || taken >= 1<<20 {
				t.Errorf("%d bytes were taken by a write that failed", taken)
			}
		})
	}
	if _, err := write(t, Options{Limit: 3}, writeTar(file("a", "12"), file("b", "34"))); !errors.Is(err, ErrInvalid) {
		t.Errorf("more bytes than the limit: %v", err)
	}
	if l, err := write(t, Options{Limit: 4}, writeTar(file("a", "12"), file("b", "34"))); err != nil || l.Size != 4 {
		t.Errorf("as many bytes as the limit: %+v, %v", l, err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	defer full.Close()
	if _, err := Write(t.Context(), t.TempDir(), full, Options{}, writeTar(file("a", "1"))); err == nil || errors.Is(err, ErrInvalid) {
		t.Errorf("a full disk: %v", err)
	}
	if _, err := Write(t.Context(), filepath.Join(t.TempDir(), "none"), open(t, os.DevNull), Options{}, writeTar(file("a", "1"))); err == nil {
		t.Error("no directory")
	}
}
