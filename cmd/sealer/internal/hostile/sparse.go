package hostile

import (
	"archive/tar"
	"fmt"
	"strings"
)

// layerSparse are the forms of sparse files and of long names that archive/tar
// reads and does not write.
func layerSparse() []layerCase {
	sparse := func(name, size, data string) Entry {
		return Extended(map[string]string{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name, "GNU.sparse.realsize": size}, File("GNUSparseFile.0/x", data))
	}
	block := func(s string) string { return s + strings.Repeat("\x00", -len(s)&511) }
	return []layerCase{
		{"PAX sparse 1.0 with a name of ..", "the path leads out of the layer", []Entry{sparse(up+"{victim}/file", "4", block("1\n0\n4\n")+"evil")}},
		{"PAX sparse 1.0 of an exbibyte", "beyond a limit: its files unpack to more than", []Entry{sparse("a", fmt.Sprint(1<<60), block(fmt.Sprintf("1\n%d\n0\n", 1<<60)))}},
		{"PAX sparse 1.0 whose map says 10^17 entries", "unexpected EOF", []Entry{sparse("a", "4", block("100000000000000000\n0\n4\n")+"evil")}},
		{"PAX sparse 1.0 whose map goes back", "invalid tar header", []Entry{sparse("a", "8", block("2\n4\n4\n0\n4\n")+"evilevil")}},
		{"PAX sparse 0.1 with a negative offset", "invalid tar header", []Entry{Extended(map[string]string{"GNU.sparse.map": "-5,9", "GNU.sparse.size": "4", "GNU.sparse.numblocks": "1"}, File("a", "evil"))}},
		{"GNU long link of a hard link with ..", "the path leads out of the layer", []Entry{
			{Raw: Block("././@LongLink", tar.TypeGNULongLink, "", up+strings.Repeat("/..", 100)+"/etc/passwd\x00", -1)}, {Raw: Block("h", tar.TypeLink, "short", "", -1)},
		}},
		{"GNU long name that says 2^33 bytes", "unexpected EOF", []Entry{{Raw: Block("././@LongLink", tar.TypeGNULongName, "", "x", 1<<33-1)}}},
		{"two names that differ in their Unicode form", "", []Entry{Symlink("e\u0301", "{victim}"), File("\u00e9/file", "1")}},
		{"name of a whiteout with a line end", "", []Entry{File("a", "1"), File(".wh.a\n", "")}},
	}
}

// stacked are images whose upper layers meet what lower ones have put in their way.
func stacked() []Case {
	one := func(name, text string, layers ...[]Entry) Case {
		return loads("stacked layers", name, func(p Places) []byte {
			im := Image{Name: loaded}
			for _, entries := range layers {
				for i, e := range entries {
					entries[i].Linkname = p.in(e.Linkname)
				}
				im.Layers = append(im.Layers, Layer{Blob: Tar(entries...)})
			}
			return im.Archive()
		}, text)
	}
	return []Case{
		one("a link outside, a file through it above", "", []Entry{Symlink("d", "{victim}")}, []Entry{File("d/file", "evil")}),
		one("a link outside, a whiteout through it above", "", []Entry{Symlink("d", "{victim}")}, []Entry{File("d/.wh.file", "")}),
		one("a link outside, an opaque mark through it above", "", []Entry{Symlink("d", "{victim}")}, []Entry{File("d/.wh..wh..opq", "")}),
		one("a link outside, a hard link to a name below it above", "no such file or directory", []Entry{Symlink("d", "{victim}")}, []Entry{Link("h", "d/file")}),
		one("a file, a directory in its place above", "", []Entry{File("d", "x")}, []Entry{File("d/x/y", "evil")}),
		one("a link outside, below a directory that is a link above", "", []Entry{Symlink("d/l", "{victim}")}, []Entry{Symlink("d", "{victim}")}),
	}
}
