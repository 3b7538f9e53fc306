package tree

import (
	"cmp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Weight returns the number of directories and link files that Prepare makes for
// d. Most of what a tree costs is theirs: file systems give each a block.
func (d *Document) Weight() int {
	seen := map[string]bool{}
	n := 0
	for _, r := range d.Repositories {
		for name := r.Name; name != "" && !seen[name]; {
			seen[name] = true
			n++
			name = name[:max(strings.LastIndexByte(name, '/'), 0)]
		}
		// A layer and a revision are a directory and a link; a tag has two links
		// in five directories. The directories that hold them come on top.
		for _, in := range []struct{ entries, each, around int }{{len(r.Layers), 2, 2}, {len(r.Revisions), 2, 3}, {len(r.Tags), 7, 1}} {
			if in.entries > 0 {
				n += in.around + in.each*in.entries
			}
		}
	}
	shards := map[string]bool{}
	for _, b := range d.Blobs {
		shards[b.Digest.Encoded()[:2]] = true
	}
	return n + len(shards) + len(d.Blobs)
}

// A View answers for the tree of a document without its files. It is safe for
// concurrent use.
type View struct {
	repositories []Repository // by name
	blobs        []Blob       // by digest
}

// NewView returns the view of d, which Parse or Encode has sorted.
func NewView(d *Document) *View { return &View{d.Repositories, d.Blobs} }

// A Node is a file or a directory of a tree.
type Node struct {
	Names []string      // of a directory's entries, sorted
	Link  digest.Digest // the content of a link file
	Blob  digest.Digest // of a blob's file
}

// IsDir reports whether n is a directory.
func (n Node) IsDir() bool { return n.Link == "" && n.Blob == "" }

// Node returns the file or directory at path, relative to Root; "." is Root.
func (v *View) Node(path string) (Node, bool) {
	if path == "." || strings.HasPrefix(v2, path+"/") {
		rest := strings.TrimPrefix(strings.TrimPrefix(v2, strings.TrimPrefix(path, ".")), "/")
		name, _, _ := strings.Cut(rest, "/")
		return Node{Names: []string{name}}, true
	}
	rest, ok := strings.CutPrefix(path, v2)
	if !ok || rest != "" && rest[0] != '/' {
		return Node{}, false
	}
	top, rest, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	switch top {
	case "":
		if len(v.blobs) == 0 {
			return directory("repositories")
		}
		return directory("blobs", "repositories")
	case "blobs":
		return v.blob(rest)
	case "repositories":
		return v.repository(rest)
	}
	return Node{}, false
}

func directory(names ...string) (Node, bool) { return Node{Names: names}, len(names) > 0 }

// inside looks up path in a directory that has the one entry name; next looks up
// the rest of path in that.
func inside(path, name string, next func(rest string) (Node, bool)) (Node, bool) {
	if path == "" {
		return directory(name)
	}
	first, rest, _ := strings.Cut(path, "/")
	if first != name {
		return Node{}, false
	}
	return next(rest)
}

// leaf is inside for a file.
func leaf(path, name string, file Node) (Node, bool) {
	return inside(path, name, func(rest string) (Node, bool) { return file, rest == "" })
}

func (v *View) blob(path string) (Node, bool) {
	if len(v.blobs) == 0 {
		return Node{}, false
	}
	return inside(path, "sha256", func(path string) (Node, bool) {
		shard, path, _ := strings.Cut(path, "/")
		hex, path, _ := strings.Cut(path, "/")
		var names []string
		for _, b := range between(v.blobs, shard, func(b Blob) string { return b.Digest.Encoded() }) {
			switch h := b.Digest.Encoded(); {
			case shard == "":
				names = append(names, h[:2])
			case len(shard) != 2:
				return Node{}, false
			case hex == "":
				names = append(names, h)
			case hex == h:
				return leaf(path, "data", Node{Blob: b.Digest})
			}
		}
		return directory(slices.Compact(names)...)
	})
}

// between returns the elements of list, which is sorted by key, whose keys begin
// with prefix.
func between[E any](list []E, prefix string, key func(E) string) []E {
	from, _ := slices.BinarySearchFunc(list, prefix, func(e E, p string) int { return cmp.Compare(key(e), p) })
	to := from
	for to < len(list) && strings.HasPrefix(key(list[to]), prefix) {
		to++
	}
	return list[from:to]
}

// repository looks up a path below "repositories": names of repositories, the
// directories on the way to them, and what they hold.
func (v *View) repository(path string) (Node, bool) {
	name, part, rest := path, "", ""
	for _, p := range []string{"_layers", "_manifests"} {
		if before, after, ok := strings.Cut("/"+path+"/", "/"+p+"/"); ok {
			name, part, rest = strings.TrimPrefix(before, "/"), p, strings.TrimSuffix(after, "/")
		}
	}
	var own *Repository
	if i, ok := slices.BinarySearchFunc(v.repositories, name, func(r Repository, n string) int { return cmp.Compare(r.Name, n) }); ok {
		own = &v.repositories[i]
	}
	switch {
	case part == "":
		return v.names(name, own)
	case own == nil:
		return Node{}, false
	case part == "_layers":
		return layerLinks(own, rest)
	}
	return manifestLinks(own, rest)
}

// names returns the directory of the repository own, which may be nil, and of
// those below name.
func (v *View) names(name string, own *Repository) (Node, bool) {
	var names []string
	if own != nil && len(own.Layers) > 0 {
		names = append(names, "_layers")
	}
	if own != nil && len(own.Revisions) > 0 {
		names = append(names, "_manifests")
	}
	below := name
	if name != "" {
		below += "/"
	}
	for _, r := range between(v.repositories, below, func(r Repository) string { return r.Name }) {
		next, _, _ := strings.Cut(r.Name[len(below):], "/")
		names = append(names, next)
	}
	slices.Sort(names)
	return Node{Names: slices.Compact(names)}, name == "" || own != nil || len(names) > 0
}

func layerLinks(r *Repository, path string) (Node, bool) {
	if len(r.Layers) == 0 {
		return Node{}, false
	}
	return digests(path, r.Layers, func(d digest.Digest) digest.Digest { return d })
}

// digests looks up path in a directory "sha256" with a link file for each element
// of list, which is sorted by key.
func digests[E any](path string, list []E, key func(E) digest.Digest) (Node, bool) {
	return inside(path, "sha256", func(path string) (Node, bool) {
		if path == "" {
			var names []string
			for _, e := range list {
				names = append(names, key(e).Encoded())
			}
			return directory(names...)
		}
		hex, rest, _ := strings.Cut(path, "/")
		want := digest.NewDigestFromEncoded(digest.SHA256, hex)
		if _, ok := slices.BinarySearchFunc(list, want, func(e E, d digest.Digest) int { return cmp.Compare(key(e), d) }); !ok {
			return Node{}, false
		}
		return leaf(rest, "link", Node{Link: want})
	})
}

func manifestLinks(r *Repository, path string) (Node, bool) {
	first, rest, _ := strings.Cut(path, "/")
	switch {
	case first == "" && len(r.Tags) == 0 && len(r.Revisions) > 0:
		return directory("revisions")
	case first == "" && len(r.Revisions) > 0:
		return directory("revisions", "tags")
	case first == "revisions" && len(r.Revisions) > 0:
		return digests(rest, r.Revisions, func(v Revision) digest.Digest { return v.Digest })
	case first == "tags" && len(r.Tags) > 0:
		return tagLinks(r.Tags, rest)
	}
	return Node{}, false
}

func tagLinks(tags []Tag, path string) (Node, bool) {
	name, path, _ := strings.Cut(path, "/")
	if name == "" {
		var names []string
		for _, t := range tags {
			names = append(names, t.Name)
		}
		return directory(names...)
	}
	i, ok := slices.BinarySearchFunc(tags, name, func(t Tag, n string) int { return cmp.Compare(t.Name, n) })
	if !ok {
		return Node{}, false
	}
	kind, rest, _ := strings.Cut(path, "/")
	switch kind {
	case "":
		return directory("current", "index")
	case "current":
		return leaf(rest, "link", Node{Link: tags[i].Digest})
	case "index":
		return digests(rest, tags[i:i+1], func(t Tag) digest.Digest { return t.Digest })
	}
	return Node{}, false
}
