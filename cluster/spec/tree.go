package spec

import (
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// tree turns a node into plain values, as Document.Tree has them. A date stays
// the text that it is.
func (d *decoder) tree(n *yaml.Node, depth int) any {
	if n = d.enter(n, depth); n == nil {
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for _, p := range d.pairs(n, depth) {
			m[p.key] = d.tree(p.value, depth+1)
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			if d.spent {
				break
			}
			list = append(list, d.tree(c, depth+1))
		}
		return list
	}
	return plain(n)
}

// plain returns a scalar's value by its resolved tag.
func plain(n *yaml.Node) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		if b, err := strconv.ParseBool(n.Value); err == nil {
			return b
		}
	case "!!int":
		if i, err := strconv.ParseInt(n.Value, 0, 64); err == nil {
			return i
		}
		if u, err := strconv.ParseUint(n.Value, 0, 64); err == nil {
			return u
		}
	case "!!float":
		if f, err := strconv.ParseFloat(n.Value, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f
		}
	}
	return n.Value
}
