package kubefile

import (
	"path"
	"strings"
)

// A Source is a source of COPY as Target needs to know it.
type Source struct {
	// Path is the source as written, or the path that a pattern matched.
	Path string
	// Name is the source's own name. "" when it has none: the context
	// itself, a git repository. Its contents are copied then.
	Name string
	Dir  bool // it is a directory
	// Alone says that the source is the only one, and was no pattern.
	Alone bool
	// Inline is a heredoc: DEST is the file, unless it ends with a slash.
	Inline bool
}

// A Place is where Target puts a source.
type Place struct {
	Path     string // in the rootfs, slash-separated, without leading slash; "." is the rootfs
	Contents bool   // the entries of the source go into Path, not the source itself
}

// SourceName returns the name that a source in the context has for itself:
// the last element of its path, or "" for ".", "/" and "dir/.", which mean
// contents.
func SourceName(src string) string {
	if src == "." || src == "/" || strings.HasSuffix(src, "/.") {
		return ""
	}
	if name := path.Base(path.Clean(src)); name != "." && name != "/" && name != ".." {
		return name
	}
	return ""
}

// Target returns where src goes.
//
// The rule of the Kubefile is that DEST is a directory and the source keeps its
// name in it; where DEST's last element is already that name, DEST is the
// target. With docker, Dockerfile's rule holds: a directory's contents go into
// DEST, and a file becomes DEST unless that is a directory (destIsDir says that
// the layers below have it as one).
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
