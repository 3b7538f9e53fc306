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

// defaultMark is a parameter of Tekton or of Argo Workflows in a text.
var defaultMark = regexp.MustCompile(`\$\((?:inputs\.|tt\.)?params\.([\w-]+)\)|\{\{-?\s*(?:inputs|workflow)\.parameters\.([\w-]+)\s*\}\}`)

// withDefaults returns n with the parameters of a Tekton or Argo object put into
// its texts, where the object gives one default for them: an image
// golang:$(params.version) is pulled with it unless a run says otherwise.
func withDefaults(n *yaml.Node) *yaml.Node {
	marked := false
	values := map[string]string{}
	differs := map[string]bool{}
	var walk func(n *yaml.Node)
	walk = func(n *yaml.Node) {
		if isScalar(n) {
			marked = marked || defaultMark.MatchString(n.Value)
		}
		for _, e := range entries(n) {
			if e.key == "params" || e.key == "parameters" {
				for _, it := range items(e.value) {
					name, value := text(it, "name"), text(it, "default")
					if value == "" {
						value = text(it, "value")
					}
					old, ok := values[name]
					differs[name] = differs[name] || ok && old != value
					if value != "" && !defaultMark.MatchString(value) {
						values[name] = value
					}
				}
			}
			walk(e.value)
		}
		for _, it := range items(n) {
			walk(it)
		}
	}
	if walk(n); !marked || len(values) == 0 {
		return n
	}
	size := 0
	return replaceMarks(n, defaultMark, func(m []string) (string, bool) {
		v, ok := values[m[1]+m[2]]
		return v, ok && !differs[m[1]+m[2]]
	}, &size)
}

// withParameters returns a copy of n, aliases followed, with ${NAME} replaced
// by its value where it has one. size counts the bytes of all texts; beyond
// maxDocument texts stay as they are.
func withParameters(n *yaml.Node, values map[string]string, size *int) *yaml.Node {
	return replaceMarks(n, parameter, func(m []string) (string, bool) {
		v, ok := values[m[1]]
		return v, ok
	}, size)
}

func replaceMarks(n *yaml.Node, marks *regexp.Regexp, value func(match []string) (string, bool), size *int) *yaml.Node {
	if n = follow(n); n == nil || *size > maxDocument {
		return n
	}
	*size += len(n.Value)
	out := *n
	if n.Kind == yaml.ScalarNode {
		out.Value = marks.ReplaceAllStringFunc(n.Value, func(mark string) string {
			if *size > maxDocument {
				return mark
			}
			v, ok := value(marks.FindStringSubmatch(mark))
			if *size += len(v); !ok {
				return mark
			}
			return v
		})
		return &out
	}
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, c := range n.Content {
		out.Content[i] = replaceMarks(c, marks, value, size)
	}
	return &out
}
