package layer

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// fuzzUnpack unpacks b beside a file that it may not reach, and looks at what
// became of both.
func fuzzUnpack(t *testing.T, b []byte) {
	dir := t.TempDir()
	unpacked, secret := filepath.Join(dir, "layer"), filepath.Join(dir, "secret")
	if err := os.Mkdir(unpacked, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _ = unpack(t.Context(), unpacked, bytes.NewReader(b), unpackOptions{limit: 1 << 20})
	content, err := os.ReadFile(secret)
	fi, serr := os.Lstat(secret)
	if err != nil || serr != nil || string(content) != "untouched" || fi.Mode() != 0o600 {
		t.Errorf("the file outside: %q, %v, %v", content, fi, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("beside the layer: %v, %v", entries, err)
	}
	err = filepath.WalkDir(unpacked, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0 {
			t.Errorf("%s is a %s", p, d.Type())
		}
		return nil // a directory that may not be read
	})
	if err != nil {
		t.Error(err)
	}
	if err := Remove(unpacked); err != nil {
		t.Error(err)
	}
}

func tarOf(headers ...*tar.Header) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		_ = w.WriteHeader(h) // what cannot be written is no input
	}
	_ = w.Close()
	return b.Bytes()
}

// FuzzUnpack unpacks arbitrary bytes.
func FuzzUnpack(f *testing.F) {
	f.Add(tarOf(&tar.Header{Name: "out", Linkname: "../..", Typeflag: tar.TypeSymlink}, &tar.Header{Name: "out/secret", Typeflag: tar.TypeReg}))
	f.Add(tarOf(&tar.Header{Name: "a/.wh.b", Typeflag: tar.TypeReg}, &tar.Header{Name: "a/.wh..wh..opq", Typeflag: tar.TypeReg}))
	f.Fuzz(fuzzUnpack)
}

// FuzzUnpackNames unpacks a tar of three entries.
func FuzzUnpackNames(f *testing.F) {
	f.Add("out", "../..", byte(tar.TypeSymlink), "out/secret", "", byte(tar.TypeReg), "x", "out/secret", byte(tar.TypeLink))
	f.Add("a/b", "", byte(tar.TypeDir), "a", "/", byte(tar.TypeSymlink), "a/b/c", "", byte(tar.TypeReg))
	f.Add("a", "..", byte(tar.TypeSymlink), "b", "a", byte(tar.TypeLink), "b/secret", "", byte(tar.TypeReg))
	f.Fuzz(func(t *testing.T, n1, l1 string, t1 byte, n2, l2 string, t2 byte, n3, l3 string, t3 byte) {
		fuzzUnpack(t, tarOf(
			&tar.Header{Name: n1, Linkname: l1, Typeflag: t1, Mode: 0o777},
			&tar.Header{Name: n2, Linkname: l2, Typeflag: t2, Mode: 0o777},
			&tar.Header{Name: n3, Linkname: l3, Typeflag: t3, Mode: 0o777},
		))
	})
}
