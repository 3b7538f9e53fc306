package imagelist

import (
	"errors"
	"strconv"

	"go.yaml.in/yaml/v3"
)

var (
	errDeep   = errors.New("nested too deep")
	errVisits = errors.New("too many values once its aliases are followed")
)

// An entry is one key of a map, merge keys followed.
type entry struct {
	key   string
	value *yaml.Node // aliases followed
	line  int        // of the key
}

// follow returns n, or the anchored node of an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias // an alias of an alias cannot be written
	}
	return n
}

// entries returns the keys of a map in the order of the file, the keys of its
// merges after its own. A key that stands twice counts once: the last of its
// own (as Kubernetes reads it), its own before a merged one.
func entries(n *yaml.Node) []entry {
	n = follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	out := make([]entry, 0, len(n.Content)/2)
	at := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := follow(n.Content[i]), n.Content[i+1]
		if k.Tag == "!!merge" {
			merges = append(merges, v)
			continue
		}
		e := entry{k.Value, follow(v), n.Content[i].Line}
		if j, ok := at[e.key]; ok {
			out[j] = e
			continue
		}
		at[e.key] = len(out)
		out = append(out, e)
	}
	budget := 1024 // a merge of merges of merges is an alias bomb
	for _, m := range merges {
		merge(m, &out, at, &budget, 0)
	}
	return out
}

func merge(m *yaml.Node, out *[]entry, at map[string]int, budget *int, depth int) {
	m = follow(m)
	if *budget--; m == nil || *budget < 0 || depth > 16 {
		return
	}
	if m.Kind == yaml.SequenceNode {
		for _, c := range m.Content {
			merge(c, out, at, budget, depth+1)
		}
		return
	}
	if m.Kind != yaml.MappingNode {
		return
	}
	var merges []*yaml.Node // its own keys win, wherever they stand
	for i := 0; i+1 < len(m.Content); i += 2 {
		k := follow(m.Content[i])
		if k.Tag == "!!merge" {
			merges = append(merges, m.Content[i+1])
			continue
		}
		if _, ok := at[k.Value]; !ok {
			at[k.Value] = len(*out)
			*out = append(*out, entry{k.Value, follow(m.Content[i+1]), m.Content[i].Line})
		}
	}
	for _, v := range merges {
		merge(v, out, at, budget, depth+1)
	}
}

// get returns the value at a path of keys, nil when there is none.
func get(n *yaml.Node, path ...string) *yaml.Node {
	for _, p := range path {
		var next *yaml.Node
		for _, e := range entries(n) {
			if e.key == p {
				next = e.value
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return follow(n)
}

// text returns the string at a path, "" when there is none or it is no
// scalar.
func text(n *yaml.Node, path ...string) string {
	n = get(n, path...)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return n.Value
}

// items returns the elements of a list, aliases followed.
func items(n *yaml.Node) []*yaml.Node {
	n = follow(n)
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out[i] = follow(c)
	}
	return out
}

func isMap(n *yaml.Node) bool { n = follow(n); return n != nil && n.Kind == yaml.MappingNode }
func isSeq(n *yaml.Node) bool { n = follow(n); return n != nil && n.Kind == yaml.SequenceNode }
func isScalar(n *yaml.Node) bool {
	n = follow(n)
	return n != nil && n.Kind == yaml.ScalarNode && n.Tag != "!!null"
}

// at appends an index or a key to a field path.
func atIndex(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func atKey(path, key string) string {
	for _, c := range key {
		if c == '.' || c == '/' || c == '[' {
			return path + "[" + strconv.Quote(key) + "]"
		}
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// check refuses a document that is nested too deep or that grows too large
// when its aliases are followed, before any rule walks it.
func check(n *yaml.Node) error {
	visits := 0
	var walk func(n *yaml.Node, depth int) error
	walk = func(n *yaml.Node, depth int) error {
		if n = follow(n); n == nil {
			return nil
		}
		if visits++; visits > maxVisits {
			return errVisits
		}
		if depth > maxDepth {
			return errDeep
		}
		for _, c := range n.Content {
			if err := walk(c, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return walk(n, 0)
}
