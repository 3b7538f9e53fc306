package hostile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An Entry is an entry of a tar. Lie, when set, is the size that the header says.
// Raw, when set, stands in the tar instead of a header and Data.
type Entry struct {
	tar.Header
	Data string
	Lie  int64
	Raw  []byte
}

// File returns a file of mode 0644.
func File(name, data string) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}, Data: data}
}

// Dir returns a directory of mode 0755.
func Dir(name string) Entry { return DirMode(name, 0o755) }

// DirMode returns a directory.
func DirMode(name string, mode int64) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode}}
}

// Symlink returns a symbolic link to target.
func Symlink(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink, Mode: 0o777}}
}

// Link returns a hard link to target.
func Link(name, target string) Entry {
	return Entry{Header: tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink, Mode: 0o644}}
}

// Node returns a device node or a fifo.
func Node(name string, kind byte, major, minor int64) Entry {
	return Entry{Header: tar.Header{Name: name, Typeflag: kind, Mode: 0o644, Devmajor: major, Devminor: minor}}
}

// Attribute returns e with the extended attribute name.
func (e Entry) Attribute(name, value string) Entry {
	e.PAXRecords = maps.Clone(e.PAXRecords)
	if e.PAXRecords == nil {
		e.PAXRecords = map[string]string{}
	}
	e.PAXRecords["SCHILY.xattr."+name] = value
	return e
}

// Extended returns e with PAX records that archive/tar does not write: those that
// stand for fields of the header, and senseless ones.
func Extended(records map[string]string, e Entry) Entry {
	var body strings.Builder
	for _, k := range slices.Sorted(maps.Keys(records)) {
		body.WriteString(record(k, records[k]))
	}
	raw := Block("PaxHeaders.0/x", tar.TypeXHeader, "", body.String(), -1)
	return Entry{Raw: append(raw, Block(e.Name, e.Typeflag, e.Linkname, e.Data, -1)...)}
}

// record returns a PAX record: its own length in decimal digits comes first.
func record(key, value string) string {
	size := len(key) + len(value) + len(" =\n")
	for n := size + 1; ; n++ {
		if s := fmt.Sprintf("%d %s=%s\n", n, key, value); len(s) == n {
			return s
		}
	}
}

// Block returns a header of the ustar format with its data. size is the size that
// the header says; -1 is that of data.
func Block(name string, kind byte, link, data string, size int64) []byte {
	if size < 0 {
		size = int64(len(data))
	}
	h := make([]byte, 512)
	copy(h[0:100], name)
	copy(h[100:], "0000644\x000000000\x000000000\x00")
	copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00        ", size, 1))
	h[156] = kind
	copy(h[157:257], link)
	copy(h[257:], "ustar\x0000")
	sum := 0
	for _, b := range h {
		sum += int(b)
	}
	copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(h, append([]byte(data), make([]byte, -len(data)&511)...)...)
}

// Tar returns a tar of the entries. It panics on a header that no tar can hold:
// the cases are fixed.
func Tar(entries ...Entry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := e.Header
		h.Size = int64(len(e.Data))
		switch {
		case e.Raw != nil:
			must(w.Flush())
			out.Write(e.Raw)
			continue
		case e.Lie != 0:
			// The writer refuses a body that is shorter than its header says: the
			// header alone is taken from another writer.
			h.Size = e.Lie
			var head bytes.Buffer
			must(tar.NewWriter(&head).WriteHeader(&h))
			must(w.Flush())
			out.Write(head.Bytes())
			out.WriteString(e.Data)
			continue
		}
		must(w.WriteHeader(&h))
		_, err := w.Write([]byte(e.Data))
		must(err)
	}
	must(w.Close())
	return out.Bytes()
}

// Gzip returns b compressed.
func Gzip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	must(err)
	must(w.Close())
	return out.Bytes()
}
