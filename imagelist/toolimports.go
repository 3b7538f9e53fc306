package imagelist

import (
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// includeKeys are the keys under which settings name further files of their own
// kind: helmfile, compose files.
var includeKeys = []string{"helmfiles", "bases", "include"}

var includeGap = cause{Open, "elsewhere", "takes in files that are not here; their images are not known",
	"put the files beside it, or add their images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// included tells of the files that settings take in and that are not here. Those that
// are here are read anyway.
func (s *scanner) included(p place, n *yaml.Node) {
	for _, key := range includeKeys {
		list := get(n, key)
		for _, it := range append(items(list), list) {
			if isMap(it) {
				it = get(it, "path")
			}
			if isSeq(it) {
				for _, one := range items(it) {
					s.includedFile(p, one)
				}
				continue
			}
			s.includedFile(p, it)
		}
	}
}

func (s *scanner) includedFile(p place, n *yaml.Node) {
	if !isScalar(n) || n.Value == "" || isPlaceholder(n.Value) {
		return
	}
	if !strings.Contains(n.Value, "://") {
		name := path.Join(path.Dir(p.file), strings.ReplaceAll(n.Value, "**", "*"))
		if !fs.ValidPath(name) {
			return
		}
		if matches, err := fs.Glob(s.fsys, name); err != nil || len(matches) > 0 {
			return
		}
	}
	s.gap(p, spot{line: n.Line, written: n.Value}, includeGap, "")
}

// imported tells of a component that a Zarf package takes from another one, which is
// not here.
func (w walker) imported(n *yaml.Node) {
	from := get(n, "import")
	if !strings.HasPrefix(w.p.kind, "Zarf") || !isMap(from) {
		return
	}
	at := get(from, "path")
	if !isScalar(at) {
		at = get(from, "url")
	}
	if !isScalar(at) || isPlaceholder(at.Value) {
		return
	}
	name := path.Join(path.Dir(w.p.file), at.Value)
	if !strings.Contains(at.Value, "://") && fs.ValidPath(name) {
		if _, err := fs.Stat(w.s.fsys, name); err == nil {
			return
		}
	}
	w.s.gap(w.p, spot{line: at.Line, written: at.Value}, includeGap, "")
}

// copyLists takes the images of a document that says where each is copied to, as
// image-syncer reads it: {SOURCE: TARGET}, {SOURCE: [TARGET, …]}. It reports whether
// this is one.
func (s *scanner) copyLists(p place, n *yaml.Node) bool {
	es := entries(n)
	var sources []entry
	for _, e := range es {
		to := e.value
		if isSeq(to) {
			to = first(items(to))
		}
		if !isScalar(to) || !hasHost(to.Value) || noImage("", to.Value) != "" || !isReference(to.Value) || noImage("", e.key) != "" || !isReference(e.key) {
			return false
		}
		sources = append(sources, e)
	}
	sure := 0
	for _, e := range sources {
		if judge("image", e.key).confidence == High {
			sure++
		}
	}
	if 2*sure <= len(es) {
		return false
	}
	for _, e := range sources {
		at := spot{line: e.line, written: e.key, field: e.key, rule: "registry-list"}
		if _, tag := splitTag(e.key); tag == "" && !strings.Contains(e.key, "@") {
			s.gap(p, at, everyTagGap, "")
			continue
		}
		s.add(p, at, High)
	}
	return true
}

func isReference(s string) bool {
	_, err := ref.Parse(s)
	return err == nil
}

// copied takes an element of a list of images to copy: {name: NAME, source-registry: REGISTRY,
// version: TAG}. It reports whether this is one.
func (w walker) copied(n *yaml.Node, path string) bool {
	name := get(n, "name")
	if !isScalar(name) || strings.ContainsAny(name.Value, ":@") {
		return false
	}
	registry, tag := "", ""
	for _, e := range entries(n) {
		if !isScalar(e.value) {
			continue
		}
		switch norm(e.key) {
		case "sourceregistry", "srcregistry", "fromregistry":
			registry = e.value.Value
		case "tag", "version":
			tag = e.value.Value
		}
	}
	if registry == "" || tag == "" {
		return false
	}
	written := strings.TrimSuffix(registry, "/") + "/" + name.Value + ":" + tag
	w.candidate("image", written, name.Line, atKey(path, "name"))
	return true
}
