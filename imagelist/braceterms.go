package imagelist

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// value reads an expression: terms with operators between them. Of a condition
// all branches are terms.
func (r *braceReader) value(line int) *yaml.Node {
	var terms []*yaml.Node
	var chosen *yaml.Node
	operator := "" // before the next term
	before := 0    // terms before the condition that is being read
	for {
		t := r.peek(0)
		if t.kind == endToken || r.is(",") || r.is(";") || r.is("}") || r.is("]") || r.is(")") {
			break
		}
		branch := r.dialect == jsonnetDialect && t.kind == nameToken && (t.text == "then" || t.text == "else")
		if t.kind != markToken && t.line > line && !r.afterOperator() && !branch {
			break // the next field
		}
		if t.kind == markToken && t.text != "{" && t.text != "[" && t.text != "(" {
			operator = t.text
			r.at++
			line = t.line
			continue
		}
		if t.kind == markToken && t.line > line && !r.afterOperator() {
			break
		}
		n := r.term()
		line = r.peek(-1).line
		switch {
		case n != nil:
			if operator == "*" && chosen == nil {
				chosen = n
			}
			terms = join(terms, operator, n)
		case t.text == "if":
			before = len(terms)
		case t.text == "then":
			terms = terms[:before]
		}
		operator = ""
	}
	if chosen != nil { // CUE: string | *"default"
		return chosen
	}
	return r.combine(terms)
}

// join adds a term behind an operator: texts with a plus between them are one, as
// is a text of Jsonnet with the values of its places.
func join(terms []*yaml.Node, operator string, n *yaml.Node) []*yaml.Node {
	last := len(terms) - 1
	switch {
	case last < 0 || terms[last].Kind != yaml.ScalarNode:
	case operator == "+" && n.Kind == yaml.ScalarNode:
		terms[last] = newText(terms[last].Value+n.Value, terms[last].Line)
		return terms
	case operator == "%" && n.Kind != yaml.MappingNode:
		terms[last] = formatted(terms[last], n)
		return terms
	}
	return append(terms, n)
}

func (r *braceReader) afterOperator() bool {
	t := r.peek(-1)
	return t.kind == markToken && strings.ContainsAny(t.text, "+|&=:*%<>?") || t.kind == nameToken && keywords[t.text]
}

// combine makes one node of the terms of an expression.
func (r *braceReader) combine(terms []*yaml.Node) *yaml.Node {
	if len(terms) < 2 {
		return first(terms)
	}
	scalars, maps := 0, 0
	for _, n := range terms {
		if n.Kind == yaml.ScalarNode {
			scalars++
		} else if n.Kind == yaml.MappingNode {
			maps++
		}
	}
	switch {
	case maps == len(terms):
		for _, n := range terms[1:] {
			for i := 0; i+1 < len(n.Content); i += 2 {
				r.put(terms[0], n.Content[i].Value, n.Content[i+1])
			}
		}
		return terms[0]
	case scalars+maps == len(terms): // CUE: a type and a value
		for _, n := range terms {
			if n.Kind == yaml.MappingNode {
				return n
			}
		}
	}
	out := newList(terms[0].Line)
	out.Content = terms
	return out
}

// formatted is Jsonnet's "%s:%s" % [a, b].
func formatted(text, args *yaml.Node) *yaml.Node {
	list := []*yaml.Node{args}
	if args.Kind == yaml.SequenceNode {
		list = args.Content
	}
	out := text.Value
	for _, a := range list {
		if a.Kind == yaml.ScalarNode {
			out = strings.Replace(out, "%s", a.Value, 1)
		}
	}
	return newText(out, text.Line)
}

func first(list []*yaml.Node) *yaml.Node {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

var interpolation = regexp.MustCompile(`\\\(\s*([^()\s]+)\s*\)|\$\{\s*([A-Za-z_][\w.\-]*)\s*\}`)

// term reads one value.
func (r *braceReader) term() *yaml.Node {
	switch t := r.peek(0); {
	case r.is("{"):
		if r.depth > maxDepth {
			r.skip()
			return nil
		}
		n := newMap(t.line)
		r.at++
		r.depth++
		r.fields(n)
		r.depth--
		r.close("}")
		return n
	case r.is("["):
		return r.list()
	case r.is("("):
		if n := r.list(); len(n.Content) != 1 {
			return n
		} else {
			return n.Content[0]
		}
	case t.kind == textToken:
		r.at++
		return newText(interpolation.ReplaceAllStringFunc(t.text, func(mark string) string {
			m := interpolation.FindStringSubmatch(mark)
			if v, ok := r.name(m[1] + m[2]); ok {
				return v
			}
			return "${" + m[1] + m[2] + "}"
		}), t.line)
	case t.kind == nameToken:
		r.at++
		if keywords[t.text] || t.text == "true" || t.text == "false" {
			return nil
		}
		if r.is("(") { // a call: its arguments may be images
			args := r.list()
			m := newMap(t.line)
			m.Content = append(m.Content, newText("arguments", t.line), args)
			return m
		}
		if v, ok := r.name(t.text); ok {
			return newText(v, t.line)
		}
		if r.dialect == cueDialect && !strings.Contains(t.text, ".") || t.text[0] >= '0' && t.text[0] <= '9' || strings.Contains(t.text, "#") {
			return nil // a type, a number
		}
		return newText("${"+t.text+"}", t.line)
	}
	return nil
}

// name is the text that a name stands for.
func (r *braceReader) name(name string) (string, bool) {
	for _, prefix := range []string{"$.", "self.", "super."} {
		name = strings.TrimPrefix(name, prefix)
	}
	v, ok := r.names[name]
	if i := strings.LastIndexByte(name, '.'); !ok && i > 0 && r.dialect != hclDialect {
		v, ok = r.names[name[i+1:]]
	}
	return v, ok
}
