package hostile

import (
	"archive/tar"
	"math"
	"slices"
	"strings"
	"time"
)

// A layerCase is a tar and a part of the error that refuses it; "" for one that is
// taken. {victim} stands for a path outside.
type layerCase struct {
	name    string
	text    string
	entries []Entry
}

// up leads to the root of the machine from any place in a store.
const up = "../../../../../../../../../../../../../../.."

func layers() []Case {
	var out []Case
	for _, c := range slices.Concat(layerNames(), layerLinks(), layerReplaced(), layerWhiteouts(), layerKinds(), layerAttributes(), layerHeaders(), layerSparse(), layerSizes()) {
		out = append(out, loads("layer", c.name, func(p Places) []byte {
			entries := slices.Clone(c.entries)
			for i, e := range entries {
				entries[i].Name, entries[i].Linkname = p.in(e.Name), p.in(e.Linkname)
			}
			return Image{Name: loaded, Layers: []Layer{{Blob: Tar(entries...)}}}.Archive()
		}, c.text))
	}
	return out
}

func layerNames() []layerCase {
	return []layerCase{
		{"name with ..", "the path leads out of the layer", []Entry{File(up+"{victim}/file", "evil")}},
		{"name with .. in its middle", "the path leads out of the layer", []Entry{File("a/"+up+"{victim}/file", "evil")}},
		{"name with .. that stays inside", "the path leads out of the layer", []Entry{File("a/../b", "evil")}},
		{"name that is ..", "the path leads out of the layer", []Entry{Dir("..")}},
		{"absolute name", "", []Entry{File("{victim}/file", "evil")}},
		{"name with backslashes", "", []Entry{File(`..\..\x`, "1")}},
		{"name of a drive", "", []Entry{File(`C:\x`, "1")}},
		{"name of 300 bytes", "file name too long", []Entry{File(strings.Repeat("a", 300), "1")}},
		{"path of 3,000 directories", "the path has more than 4096 bytes", []Entry{File(strings.Repeat("d/", 3000)+"f", "1")}},
		{"name with a line end and an escape sequence", "", []Entry{File("a\nb\x1b[31m", "1")}},
		{"name that is no UTF-8", "", []Entry{{Raw: Block("a\xff\xfe", tar.TypeReg, "", "1", -1)}}},
		{"file in place of the layer's root", "the layer's root is no directory", []Entry{File(".", "1")}},
		{"empty name", "the layer's root is no directory", []Entry{{Raw: Block("", tar.TypeReg, "", "1", -1)}}},
		{"file named as a directory", "", []Entry{{Raw: Block("x/", tar.TypeReg, "", "1", -1)}}},
		{"two names that differ in case", "", []Entry{Symlink("A", "{victim}"), File("a/file", "1")}},
		{"links of a registry tree, forged", "", []Entry{
			File("registry/docker/registry/v2/repositories/library/nginx/_manifests/tags/latest/current/link", "sha256:"+strings.Repeat("0", 64)),
			Symlink("registry/docker/registry/v2/blobs/sha256/00/"+strings.Repeat("0", 64)+"/data", "{victim}/file"),
		}},
		{"registry tree that is a link", "", []Entry{Symlink("registry", "{victim}")}},
	}
}

func layerLinks() []layerCase {
	return []layerCase{
		{"file through a link", "path escapes from parent", []Entry{Symlink("l", "{victim}"), File("l/file", "evil")}},
		{"file through a relative link", "path escapes from parent", []Entry{Symlink("a/l", up+"{victim}"), File("a/l/file", "evil")}},
		{"file through two links", "path escapes from parent", []Entry{Dir("a"), Symlink("a/b", ".."), Symlink("a/b/c", up+"{victim}"), File("a/b/c/file", "evil")}},
		{"directory through a link", "path escapes from parent", []Entry{Symlink("l", "{victim}"), Dir("l/new")}},
		{"file through /proc/self/cwd", "path escapes from parent", []Entry{Symlink("p", "/proc/self/cwd"), File("p/evil", "x")}},
		{"file through a loop of links", "too many levels of symbolic links", []Entry{Symlink("a", "b"), Symlink("b", "a"), File("a/x", "1")}},
		{"link with a mode", "", []Entry{{Header: tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "{victim}/file", Mode: 0o4777}}, Symlink("l2/x", "{victim}")}},
		{"hard link to an absolute path", "no such file or directory", []Entry{Link("h", "{victim}/file"), File("h", "evil")}},
		{"hard link with ..", "the path leads out of the layer", []Entry{Link("h", up+"{victim}/file")}},
		{"hard link to a link, then a file", "", []Entry{Symlink("s", "{victim}/file"), Link("h", "s"), File("h", "evil")}},
		{"hard link through a link", "path escapes from parent", []Entry{Symlink("s", "{victim}"), Link("h", "s/file"), File("h", "evil")}},
		{"hard link to a directory", "a directory has no hard links", []Entry{Dir("d"), Link("h", "d")}},
		{"hard link to itself", "hard link to itself", []Entry{Link("a", "a")}},
		{"hard link to itself, as a file before", "", []Entry{File("a", "1"), Link("a", "a")}},
		{"hard link to nothing", "no such file or directory", []Entry{Link("a", "nope")}},
		{"hard link below its target", "not a directory", []Entry{File("a", "1"), Link("a/b", "a")}},
	}
}

func layerReplaced() []layerCase {
	return []layerCase{
		{"link to a file, replaced by a file", "", []Entry{Symlink("l", "{victim}/file"), File("l", "evil")}},
		{"link to a directory, replaced by a directory", "", []Entry{Symlink("l", "{victim}/dir"), DirMode("l", 0o777), File("l/x", "evil")}},
		{"directory with setuid, replaced by a link", "", []Entry{DirMode("d", 0o4777), Symlink("d", "{victim}/dir")}},
		{"directory of another owner, replaced by a link", "", []Entry{
			{Header: tar.Header{Name: "d", Typeflag: tar.TypeDir, Mode: 0o777, Uid: 1234}}, File("d/x", "1"), Symlink("d", "{victim}/dir"),
		}},
		{"directory with attributes, replaced by a link", "", []Entry{DirMode("d", 0o777).Attribute("user.evil", "1"), Symlink("d", "{victim}/dir")}},
		{"file, directory and file of one name", "", []Entry{File("x", "1"), File("x", "2"), Dir("x"), File("x/y", "3"), File("x", "4")}},
		{"parent replaced by a link", "path escapes from parent", []Entry{Dir("d"), File("d/a", "1"), Symlink("d", "{victim}"), File("d/file", "evil")}},
		{"file as a parent", "not a directory", []Entry{File("x", "1"), File("x/y", "2")}},
		{"hard link over a directory", "", []Entry{File("a", "1"), Dir("d"), File("d/x", "1"), Link("d", "a")}},
	}
}

func layerWhiteouts() []layerCase {
	return []layerCase{
		{"whiteout outside", "the path leads out of the layer", []Entry{File("../.wh.file", "")}},
		{"whiteout of ..", "a whiteout of nothing", []Entry{File(".wh...", "")}},
		{"whiteout of .", "a whiteout of nothing", []Entry{File(".wh..", "")}},
		{"whiteout of nothing", "a whiteout of nothing", []Entry{File(".wh.", "")}},
		{"whiteout that is a link", "", []Entry{Symlink(".wh.x", "{victim}/file")}},
		{"whiteout that is a device", "", []Entry{Node(".wh.x", tar.TypeBlock, 8, 0)}},
		{"whiteout through a link", "path escapes from parent", []Entry{Symlink("l", "{victim}"), File("l/.wh.file", "")}},
		{"opaque mark that is a directory", "", []Entry{Dir("d/.wh..wh..opq")}},
		{"mark of AUFS", "", []Entry{File(".wh..wh.plnk/x", "1"), File("a", "1")}},
	}
}

func layerKinds() []layerCase {
	return []layerCase{
		{"block device", "it is a device node or fifo", []Entry{Node("dev0", tar.TypeBlock, 254, 0)}},
		{"character device 0:0, overlayfs's whiteout", "it is a device node or fifo", []Entry{Node("w", tar.TypeChar, 0, 0)}},
		{"fifo", "it is a device node or fifo", []Entry{Node("f", tar.TypeFifo, 0, 0)}},
		{"setuid program", "", []Entry{{Header: tar.Header{Name: "su", Typeflag: tar.TypeReg, Mode: 0o6755}, Data: "#!/bin/sh\nid\n"}}},
		{"contiguous file", "an entry of type '7'", []Entry{{Raw: Block("c", tar.TypeCont, "", "1", -1)}}},
		{"entry of an unknown type", "an entry of type 'Z'", []Entry{{Raw: Block("c", 'Z', "", "1", -1)}}},
		{"root of mode 0", "", []Entry{DirMode("./", 0), File("x", "1")}},
		{"directory of mode 0", "", []Entry{DirMode("d", 0), File("d/x", "1")}},
	}
}

func layerAttributes() []layerCase {
	return []layerCase{
		{"attributes of overlayfs (trusted)", "", []Entry{
			Dir("d").Attribute("trusted.overlay.opaque", "y").Attribute("trusted.overlay.redirect", "/etc"), File("x", "1").Attribute("trusted.overlay.metacopy", ""),
		}},
		{"attributes of overlayfs (user)", "", []Entry{Dir("d").Attribute("user.overlay.opaque", "y").Attribute("user.overlay.redirect", "/etc")}},
		{"file capabilities", "", []Entry{File("cap", "x").Attribute("security.capability", "\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")}},
		{"file capabilities, too short", "set security.capability", []Entry{File("cap", "x").Attribute("security.capability", "\x01\x00\x00\x02")}},
		{"SELinux label", "", []Entry{File("x", "x").Attribute("security.selinux", "x")}},
		{"attribute of 70 kB", "set user.big", []Entry{File("x", "x").Attribute("user.big", strings.Repeat("a", 70000))}},
		{"attribute without a name", "", []Entry{File("x", "x").Attribute("", "1")}},
	}
}

func layerHeaders() []layerCase {
	x := File("x", "1")
	return []layerCase{
		{"PAX path with ..", "the path leads out of the layer", []Entry{Extended(map[string]string{"path": "../../../../x"}, x)}},
		{"PAX link target with ..", "the path leads out of the layer", []Entry{Extended(map[string]string{"linkpath": "../../../../etc/passwd"}, Link("x", "y"))}},
		{"PAX size of a terabyte", "beyond a limit: its files unpack to more than", []Entry{Extended(map[string]string{"size": "999999999999"}, x)}},
		{"PAX size that is negative", "invalid tar header", []Entry{Extended(map[string]string{"size": "-1"}, x)}},
		{"PAX record without a length", "invalid tar header", []Entry{{Raw: append(Block("p", tar.TypeXHeader, "", "x=1\n", -1), Block("x", tar.TypeReg, "", "1", -1)...)}}},
		{"PAX records of 2 MB", "header field too long", []Entry{Extended(map[string]string{"comment": strings.Repeat("a", 2<<20)}, x)}},
		{"global PAX path", "the path leads out of the layer", []Entry{{Raw: Block("g", tar.TypeXGlobalHeader, "", record("path", "../../x"), -1)}, x}},
		{"GNU long name with ..", "the path leads out of the layer", []Entry{{Raw: append(Block("././@LongLink", 'L', "", up+"/x\x00", -1), Block("x", tar.TypeReg, "", "1", -1)...)}}},
		{"GNU sparse file of 4 exbibytes", "beyond a limit: its files unpack to more than", []Entry{Extended(map[string]string{
			"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": "4611686018427387904",
		}, File("x", "1\n0\n1\n"+strings.Repeat("\x00", 506)+"a"))}},
		{"time before 1700", "", []Entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(-1e10, 0), Format: tar.FormatPAX}, Data: "1"}}},
		{"time in 36,534,000,000 years", "", []Entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644, ModTime: time.Unix(1<<60, 0), Format: tar.FormatPAX}, Data: "1"}}},
		{"owner 2^40", "", []Entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644, Uid: 1 << 40}, Data: "1"}}},
		{"owner 2^32-1", "", []Entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644, Uid: math.MaxUint32}, Data: "1"}}},
	}
}

func layerSizes() []layerCase {
	return []layerCase{
		{"file of 2^40 bytes in its header", "beyond a limit: its files unpack to more than", []Entry{{Header: tar.Header{Name: "big", Typeflag: tar.TypeReg, Mode: 0o644}, Data: "abc", Lie: 1 << 40}}},
		{"file of 2^62 bytes in its header", "beyond a limit: its files unpack to more than", []Entry{{Header: tar.Header{Name: "big", Typeflag: tar.TypeReg, Mode: 0o644, Format: tar.FormatPAX}, Data: "abc", Lie: 1 << 62}}},
		{"tar that ends inside a file", "unexpected EOF", []Entry{{Header: tar.Header{Name: "x", Typeflag: tar.TypeReg, Mode: 0o644}, Data: "abc", Lie: 4096}}},
		{"header with a wrong checksum", "invalid tar header", []Entry{{Raw: append([]byte("y"), Block("x", tar.TypeReg, "", "", -1)[1:]...)}}},
		{"65 directories with attributes of 1 MB", "beyond a limit: the names and extended attributes", slices.Repeat([]Entry{Dir("d").Attribute("user.x", strings.Repeat("a", 1_040_000))}, 66)},
	}
}
