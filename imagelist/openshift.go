package imagelist

import (
	"regexp"

	"go.yaml.in/yaml/v3"
)

// openShiftTemplate looks at the objects of a Template with the values that its
// parameters have by default, as oc process makes them.
func (s *scanner) openShiftTemplate(p place, n *yaml.Node) {
	values := map[string]string{}
	for _, it := range items(get(n, "parameters")) {
		if v := text(it, "value"); v != "" {
			values[text(it, "name")] = v
		}
	}
	size := 0
	for _, it := range items(get(n, "objects")) {
		s.object(p, withParameters(it, values, &size), "")
	}
}

var parameter = regexp.MustCompile(`\$\{\{?([A-Za-z0-9_]+)\}?\}`)

// withParameters returns a copy of n, aliases followed, with ${NAME} replaced
// by its value where it has one. size counts the bytes of it all; what is too
// large stays as it is.
func withParameters(n *yaml.Node, values map[string]string, size *int) *yaml.Node {
	if n = follow(n); n == nil || *size > maxDocument {
		return n
	}
	*size += len(n.Value)
	out := *n
	if n.Kind == yaml.ScalarNode {
		out.Value = parameter.ReplaceAllStringFunc(n.Value, func(mark string) string {
			if *size > maxDocument {
				return mark
			}
			v, ok := values[parameter.FindStringSubmatch(mark)[1]]
			if *size += len(v); !ok {
				return mark
			}
			return v
		})
		return &out
	}
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = withParameters(c, values, size)
	}
	return &out
}
