package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLike makes a layer with the help of one that is alike: it is the layer that
// is made without, whatever became of the other one.
func TestLike(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 9<<20) // some pieces that do not shrink
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	text := strings.Repeat("some text that repeats ", 400_000)
	script := file("script", "#!/bin/sh\n")
	was := []entry{
		file("a/changed", strings.Repeat("1", 100_000)), file("b/noise", string(noise)), file("c/text", text),
		script, file("longer", "abc"), {name: "link", link: "script"}, file("becomes-link", "script"), file("z/zeros", string(make([]byte, 5<<20))),
		file("later", "same"), file("owner", "same"), file("group", "same"), file("end", "same but for the end 1"), file("empty", ""),
	}
	was = append(was, file("twice", "1"), file("twice", "2"))
	now := append([]entry{}, was...)
	now[0] = file("a/changed", strings.Repeat("1", 99_999)+"2")
	now[3].mode = 0o755
	now[4] = file("longer", "abcd")
	now[5] = file("link", "#!/bin/sh\n")
	now[6] = entry{name: "becomes-link", link: "script"}
	now[8].time = time.Unix(2, 0)
	now[9].uid, now[10].gid = 12, 34
	now[11].content = "same but for the end 2"

	want, err := write(t, Options{}, writeTar(now...))
	if err != nil {
		t.Fatal(err)
	}
	files := regular(t, want.dir)
	for name, spoil := range map[string]func(blob []byte) []byte{
		"whole":       func(b []byte) []byte { return b },
		"broken blob": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
		"no blob":     func([]byte) []byte { return bytes.Repeat([]byte("text"), 10_000) },
		"short blob":  func(b []byte) []byte { return b[:len(b)/3] },
		"empty blob":  func([]byte) []byte { return nil },
		"nothing":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			like, err := write(t, Options{}, writeTar(was...))
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Like: like.dir}
			if spoil == nil {
				o.Like = filepath.Join(like.dir, "none")
			} else {
				b, err := os.ReadFile(like.blob)
				if err := errors.Join(err, os.WriteFile(like.blob, spoil(b), 0o600)); err != nil {
					t.Fatal(err)
				}
				o.LikeBlob = open(t, like.blob)
			}
			got, err := write(t, o, writeTar(now...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Result, got.Result); diff != "" {
				t.Errorf("the layer (-without, +with):\n%s", diff)
			}
			if diff := cmp.Diff(files, regular(t, got.dir)); diff != "" {
				t.Error("its files differ")
			}
			if _, err := o.LikeBlob.Stat(); o.LikeBlob != nil && !errors.Is(err, os.ErrClosed) {
				t.Errorf("the other blob is still open: %v", err)
			}
			shared := map[string]bool{
				"b/noise": spoil != nil, "c/text": spoil != nil, "z/zeros": spoil != nil, "a/changed": false, "script": false, "longer": false,
				"later": false, "owner": spoil != nil && os.Geteuid() != 0, "group": spoil != nil && os.Geteuid() != 0, "end": false, "empty": false,
			}
			for file, want := range shared {
				if is := os.SameFile(mustStat(t, filepath.Join(like.dir, file)), mustStat(t, filepath.Join(got.dir, file))); is != want {
					t.Errorf("%s is one file in both: %v", file, is)
				}
			}
			if fi := mustStat(t, filepath.Join(like.dir, "script")); fi.Mode().Perm() != 0o644 {
				t.Errorf("the other layer's script is now %v", fi.Mode())
			}
			if b, err := os.ReadFile(filepath.Join(like.dir, "a/changed")); err != nil || strings.Contains(string(b), "2") {
				t.Errorf("the other layer has changed: %v", err)
			}
		})
	}
}

// TestFrames reads the frames of a blob piece by piece: those that are equal are
// taken, and after eight that differ none is read any more.
func TestFrames(t *testing.T) {
	t.Parallel()
	var tarball bytes.Buffer
	noise := make([]byte, 12*pieceSize)
	for i, r := 0, rand.New(rand.NewPCG(3, 4)); i < len(noise); i += 97 { // it shrinks a little, and no piece is like another
		noise[i] = byte(r.Uint32())
	}
	if err := writeTar(file("noise", string(noise)))(&tarball); err != nil {
		t.Fatal(err)
	}
	l, err := write(t, Options{}, func(w io.Writer) error { _, err := w.Write(tarball.Bytes()); return err })
	if err != nil {
		t.Fatal(err)
	}
	for _, equal := range []bool{true, false} {
		f, err := openFrames(open(t, l.blob))
		if err != nil {
			t.Fatal(err)
		}
		var frame, plain []byte
		var size int64
		read := 0
		for rest := tarball.Bytes(); len(rest) > 0; rest = rest[min(pieceSize, len(rest)):] {
			piece := rest[:min(pieceSize, len(rest))]
			if !equal {
				piece = piece[1:]
			}
			if frame = f.next(frame[:0]); len(frame) == 0 {
				break
			}
			size += int64(len(frame))
			read++
			var known bool
			if known, plain = f.holds(frame, piece, plain); known != equal {
				t.Errorf("piece %d: equal %t, want %t", read, known, equal)
			}
		}
		if equal && size != l.Blob.Size {
			t.Errorf("the frames have %d bytes, the blob %d", size, l.Blob.Size)
		}
		if !equal && read != misses {
			t.Errorf("%d frames were compared, want %d", read, misses)
		}
		if again := f.next(nil); len(again) > 0 {
			t.Error("a frame after the end")
		}
		f.close()
	}
	var none *frames
	none.close()
	if got := none.next([]byte("x")); len(got) > 0 {
		t.Errorf("no blob has the frame %q", got)
	}
	if known, _ := none.holds(nil, []byte("x"), nil); known {
		t.Error("no blob has a piece")
	}
}

// TestLikeWithAttributes links no file that has, or gets, attributes of its own.
func TestLikeWithAttributes(t *testing.T) {
	t.Parallel()
	note := func(w io.Writer) error {
		tw := tar.NewWriter(w)
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "f", Mode: 0o644, Size: 1, ModTime: time.Unix(1, 0), PAXRecords: map[string]string{AttributeRecord + "user.note": "text"}}
		err := tw.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(tw, "x")
		}
		return errors.Join(err, tw.Close())
	}
	plain := writeTar(file("f", "x"))
	for _, tc := range []struct {
		was, now func(io.Writer) error
		shared   bool
	}{{plain, plain, true}, {plain, note, false}, {note, plain, false}, {note, note, false}} {
		like, err := write(t, Options{}, tc.was)
		if err != nil {
			t.Fatal(err)
		}
		f := open(t, filepath.Join(like.dir, "f"))
		attributes, err := Attributes(f)
		if err != nil {
			t.Fatal(err)
		}
		got, err := write(t, Options{Like: like.dir}, tc.now)
		if err != nil {
			t.Fatal(err)
		}
		is := os.SameFile(mustStat(t, filepath.Join(like.dir, "f")), mustStat(t, filepath.Join(got.dir, "f")))
		if is != tc.shared && (tc.shared || len(attributes) > 0) { // some file systems have no attributes of users
			t.Errorf("with %v: one file in both: %t", attributes, is)
		}
	}
}
