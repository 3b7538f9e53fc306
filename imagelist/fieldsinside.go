package imagelist

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// quiet records the image fields of an object that pulls none, so that a user
// who expected them sees why they are not there.
func (s *scanner) quiet(p place, n *yaml.Node, path, kind string) {
	switch {
	case isScalar(n) && mayHoldPods(n.Value): // a static pod that a bootstrap writes
		s.embeddedPods(p, n, path)
		return
	case isScalar(n) && pullsImages(n.Value):
		s.scriptText(p, n, path)
		return
	case strings.HasSuffix(path, ".mutate"), strings.HasSuffix(path, ".generate"): // parts that a policy adds
		q := p
		q.embedded, q.limit, q.prefix = p.embedded+1, Medium.weaker(p.limit), p.prefix+path+":"
		w := walker{s: s, p: q}
		w.fields(n, "", "", inherited{}, 1)
		return
	}
	for _, e := range entries(n) {
		if isScalar(e.value) && norm(e.key) == "image" {
			s.reject(p, spot{e.value.Line, atKey(path, e.key), e.value.Value, "image-field"}, "objects of kind "+kind+" name images, but nothing pulls them")
		}
		s.quiet(p, e.value, atKey(path, e.key), kind)
	}
	for i, it := range items(n) {
		s.quiet(p, it, atIndex(path, i), kind)
	}
}

// isObject reports whether a map is all of an object, not a reference to one.
func isObject(n *yaml.Node) bool {
	if text(n, "kind") == "" || text(n, "apiVersion") == "" {
		return false
	}
	for _, key := range []string{"spec", "data", "template", "items", "stringData"} {
		if get(n, key) != nil {
			return true
		}
	}
	return false
}

// object looks at an object inside another, which a controller makes, or inside
// the settings of a program.
func (w walker) object(n *yaml.Node, path string) {
	p := w.p
	p.foreign, p.settings = false, false
	if p.limit == "" || p.limit == Medium {
		p.limit = High
	}
	if p.nested = p.object != ""; path != "" {
		p.prefix += path + ":"
	}
	w.s.object(p, n, "")
}

// setting takes a text that is a reference with a registry, whatever its key.
func (w walker) setting(e entry, path string) {
	rule := "env-value"
	if w.p.foreign {
		rule = "text-value"
	}
	if isJudged(e.key) {
		return
	}
	value := e.value.Value
	for range 2 {
		if r, ok := hosted(value); ok {
			w.s.found(w.p, spot{e.value.Line, path, value, rule}, Medium, r)
			return
		}
		if _, after, ok := strings.Cut(value, "="); ok { // a flag, NAME=REF
			value = after
		}
	}
}
