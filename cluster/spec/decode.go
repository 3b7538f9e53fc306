package spec

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Limits of a Clusterfile. Aliases are counted each time they are used, so a
// few lines cannot stand for billions of values.
const (
	maxSize   = 4 << 20 // bytes
	maxValues = 200_000
	maxDepth  = 64
)

// A decoder turns YAML nodes into values by the json tags of their types. It
// goes on after a fault, so that all faults of a file are found.
type decoder struct {
	faults
	values int
	spent  bool // the limit was told
	places map[string]place
}

// enter counts a value and follows aliases. It returns nil when the document
// is too large to go on.
func (d *decoder) enter(n *yaml.Node, depth int) *yaml.Node {
	line := n.Line
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	d.values++
	if !d.spent && (d.values > maxValues || depth > maxDepth) {
		d.spent = true
		d.add(line, "write the values out, without anchors", "more than %d values, or nested deeper than %d", maxValues, maxDepth)
	}
	if d.spent {
		return nil
	}
	return n
}

// A pair is a key of a mapping with its value.
type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs returns a mapping's pairs in order, merge keys (<<) taken apart. Keys
// that stand twice are faults.
func (d *decoder) pairs(n *yaml.Node, depth int) []pair {
	var own, merged []pair
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		switch {
		case k.Tag == "!!merge":
			merged = append(merged, d.mergePairs(n.Content[i+1], depth+1)...)
		case k.Kind != yaml.ScalarNode:
			d.add(k.Line, "", "a key must be a word")
		case seen[k.Value]:
			d.add(k.Line, "keep one of them", "%q stands twice", k.Value)
		default:
			seen[k.Value] = true
			own = append(own, pair{k.Value, k.Line, n.Content[i+1]})
		}
	}
	for _, p := range merged {
		if !seen[p.key] {
			seen[p.key] = true
			own = append(own, p)
		}
	}
	return own
}

// mergePairs returns the pairs of a merge key's value: a mapping or a list of
// mappings, the earlier ones first.
func (d *decoder) mergePairs(n *yaml.Node, depth int) []pair {
	line := n.Line
	n = d.enter(n, depth)
	switch {
	case n == nil:
		return nil
	case n.Kind == yaml.MappingNode:
		return d.pairs(n, depth)
	case n.Kind != yaml.SequenceNode:
		d.add(line, "", "<< must name a mapping")
		return nil
	}
	var all []pair
	for _, c := range n.Content {
		all = append(all, d.mergePairs(c, depth+1)...)
	}
	return all
}

// decode fills v, which must be settable, from n. path says where it is in
// the document: "spec.hosts[0].ips".
func (d *decoder) decode(n *yaml.Node, v reflect.Value, path string, depth int) {
	line := n.Line
	if n = d.enter(n, depth); n == nil || isNull(n) {
		return
	}
	d.places[path] = place{d.file, line}
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, line, t, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.decode(n, v.Elem(), path, depth+1)
	case reflect.Struct:
		d.object(n, line, v, path, depth)
	case reflect.Slice:
		d.list(n, line, v, path, depth)
	case reflect.Map:
		d.stringMap(n, line, v, path, depth)
	default:
		d.scalar(n, line, v, path)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func (d *decoder) text(n *yaml.Node, line int, t encoding.TextUnmarshaler, path string) {
	if n.Kind != yaml.ScalarNode {
		d.add(line, "", "%s must be one value, not %s", path, kindOf(n))
		return
	}
	if err := t.UnmarshalText([]byte(n.Value)); err != nil {
		d.add(line, "", "%s: %v", path, err)
	}
}

func (d *decoder) object(n *yaml.Node, line int, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.add(line, "", "%s must be a mapping, not %s", orDocument(path), kindOf(n))
		return
	}
	fields := fieldsOf(v.Type())
	for _, p := range d.pairs(n, depth) {
		i, ok := fields[p.key]
		if !ok {
			d.add(p.line, didYouMean(p.key, names(v.Type())), "unknown field %q in %s", p.key, orDocument(path))
			continue
		}
		d.decode(p.value, v.Field(i), join(path, p.key), depth+1)
	}
}

// list fills a slice. A single value counts as a list of one.
func (d *decoder) list(n *yaml.Node, line int, v reflect.Value, path string, depth int) {
	items := []*yaml.Node{n}
	switch n.Kind {
	case yaml.SequenceNode:
		items = n.Content
	case yaml.MappingNode:
		d.add(line, `begin each entry with "- "`, "%s must be a list, not a mapping", path)
		return
	}
	for i, c := range items {
		e := reflect.New(v.Type().Elem()).Elem()
		d.decode(c, e, fmt.Sprintf("%s[%d]", path, i), depth+1)
		v.Set(reflect.Append(v, e))
		if d.spent {
			return
		}
	}
}

func (d *decoder) stringMap(n *yaml.Node, line int, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.add(line, "", "%s must be a mapping, not %s", path, kindOf(n))
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, p := range d.pairs(n, depth) {
		e := reflect.New(v.Type().Elem()).Elem()
		d.decode(p.value, e, join(path, p.key), depth+1)
		m.SetMapIndex(reflect.ValueOf(p.key), e)
	}
	v.Set(m)
}

func (d *decoder) scalar(n *yaml.Node, line int, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.add(line, "", "%s must be one value, not %s", path, kindOf(n))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(n.Value)
	case reflect.Bool:
		b, err := strconv.ParseBool(n.Value)
		if err != nil {
			d.add(line, "", "%s must be true or false, not %q", path, n.Value)
		}
		v.SetBool(b)
	case reflect.Int:
		i, err := strconv.Atoi(n.Value)
		if err != nil {
			d.add(line, "", "%s must be a number, not %q", path, n.Value)
		}
		v.SetInt(int64(i))
	default:
		panic("spec: no way to decode " + v.Type().String())
	}
}

// fieldsOf maps a struct's json names to its fields.
func fieldsOf(t reflect.Type) map[string]int {
	m := map[string]int{}
	for i, name := range names(t) {
		if name != "" {
			m[name] = i
		}
	}
	return m
}

// names returns the json names of a struct's fields in order, "" for fields
// that no document names.
func names(t reflect.Type) []string {
	all := make([]string, t.NumField())
	for i := range all {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			all[i] = name
		}
	}
	return all
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func orDocument(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%q", n.Value)
}
