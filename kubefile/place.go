package kubefile

import (
	"path"
	"strings"
)

// A Source describes a source of COPY to Target.
type Source struct {
	// Path is the source as written, or the path that a pattern matched.
	Path string
	// Name is the source's own name. The context itself and a git repository have
	// none, "": their contents are copied.
	Name string
	Dir  bool // it is a directory
	// Alone says that the source is the only one, and not a pattern.
	Alone bool
	// Inline says that the source is a heredoc: DEST is the file, unless it ends
	// with a slash.
	Inline bool
}

// A Place is the place of a source in the rootfs.
type Place struct {
	Path     string // in the rootfs, slash-separated, without leading slash; "." is the rootfs
	Contents bool   // the entries of the source go into Path, not the source itself
}

// SourceName returns the name of a source in the context: the last element of its
// path, or "" for ".", "/" and "dir/.", which stand for contents.
func SourceName(src string) string {
	if src == "." || src == "/" || strings.HasSuffix(src, "/.") {
		return ""
	}
	if name := path.Base(path.Clean(src)); name != "." && name != "/" && name != ".." {
		return name
	}
	return ""
}

// Target returns the place of src.
//
// The rule of the Kubefile: DEST is a directory, and the source keeps its name in
// it. If DEST's last element is already that name, DEST is the source itself.
// With docker, Dockerfile's rule holds: a directory's contents go into DEST, and
// a file becomes DEST unless DEST is a directory. destIsDir says that DEST is a
// directory in the layers below.
func (c *Copy) Target(src Source, docker, destIsDir bool) Place {
	dest := path.Clean("/" + c.Dest)[1:]
	slash := strings.HasSuffix(c.Dest, "/") || strings.HasSuffix(c.Dest, "/.")
	if dest == "" {
		dest, slash = ".", true
	}
	switch {
	case src.Inline && src.Alone && !slash:
		return Place{Path: dest}
	case src.Name == "":
		return Place{Path: dest, Contents: true}
	case docker && src.Dir:
		return Place{Path: dest, Contents: true}
	case docker && !slash && !destIsDir && src.Alone:
		return Place{Path: dest}
	case !docker && src.Alone && path.Base(dest) == src.Name && (src.Dir || !slash):
		return Place{Path: dest}
	}
	return Place{Path: path.Join(dest, src.Name)}
}
