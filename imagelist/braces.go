package imagelist

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A dialect is a language of nested braces whose files hold objects and settings.
type dialect int

const (
	cueDialect dialect = iota
	jsonnetDialect
	hclDialect
)

func dialectOf(name string) dialect {
	switch path.Ext(name) {
	case ".jsonnet", ".libsonnet", ".json5":
		return jsonnetDialect
	case ".tf", ".hcl", ".tfvars", ".nomad":
		return hclDialect
	}
	return cueDialect
}

// readBraces reads a file of CUE, Jsonnet or HCL as far as its texts need it:
// maps, lists and strings, with the names that stand for one plain text put in.
// Nothing is evaluated: a condition is taken in all its branches, and an
// expression that is more than texts joined leaves a placeholder. The result is
// nil where nothing was read.
func readBraces(data []byte, d dialect) *yaml.Node {
	if checkSize(data) != nil {
		return nil
	}
	tokens := braceTokens(string(data), d)
	names := map[string]string{}
	var root *yaml.Node
	for range 3 { // a name may stand for others, which may be said later
		r := &braceReader{tokens: tokens, dialect: d, names: names, said: map[string][]string{}}
		root = r.file()
		for name, values := range r.said {
			if len(values) == 1 {
				names[name] = values[0]
			}
		}
	}
	if root == nil || len(root.Content) == 0 {
		return nil
	}
	return root
}

// A braceReader builds nodes out of tokens.
type braceReader struct {
	tokens  []braceToken
	at      int
	dialect dialect
	depth   int
	path    []string            // the keys around
	names   map[string]string   // texts that names stand for
	said    map[string][]string // all texts of each name that this reading met
}

func (r *braceReader) peek(ahead int) braceToken {
	if r.at+ahead < len(r.tokens) {
		return r.tokens[r.at+ahead]
	}
	return braceToken{kind: endToken}
}

func (r *braceReader) next() braceToken {
	t := r.peek(0)
	r.at++
	return t
}

func (r *braceReader) is(text string) bool {
	t := r.peek(0)
	return t.kind == markToken && t.text == text
}

// file reads a whole file: the fields of a map, or values among them.
func (r *braceReader) file() *yaml.Node {
	root := newMap(1)
	for r.peek(0).kind != endToken {
		before := r.at
		r.fields(root)
		if r.peek(0).kind != endToken { // a closing brace too many
			r.at = max(r.at, before) + 1
		}
	}
	return root
}

func newMap(line int) *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line} }
func newList(line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: line}
}

func newText(text string, line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: text, Line: line}
}

// fields reads fields into a map until the brace that closes it.
func (r *braceReader) fields(into *yaml.Node) {
	for {
		t := r.peek(0)
		switch {
		case t.kind == endToken || r.is("}") || r.is("]") || r.is(")"):
			return
		case t.kind == markToken && t.text == "{" && r.depth < maxDepth: // an embedded value, or a file that is one
			r.at++
			r.depth++
			r.fields(into)
			r.depth--
			r.close("}")
		case t.kind == markToken && t.text == "[" && r.depth < maxDepth: // a pattern, a computed name, or a list
			n := r.list()
			if r.is(":") || r.is("+") || r.is("=") {
				r.field(into, "", t.line)
			} else {
				r.put(into, "", n)
			}
		case t.kind == textToken || t.kind == nameToken:
			r.named(into)
		default:
			r.at++
		}
	}
}

func (r *braceReader) close(mark string) {
	if r.is(mark) {
		r.at++
	}
}

// keywords are names before a field or an expression; a key only with a colon or
// an equals sign behind them.
var keywords = wordSet("local assert if then else for in import importstr importbin function error package let and or not tailstrict null self super")

// named reads an item that begins with a name or a text.
func (r *braceReader) named(into *yaml.Node) {
	t := r.next()
	if t.kind == nameToken && keywords[t.text] && !r.is(":") && !r.is("=") {
		if t.text == "for" || t.text == "if" { // the clause, up to its braces or the end of its line
			for c := r.peek(0); c.kind != endToken && c.line == t.line && !r.is("{") && !r.is("}"); c = r.peek(0) {
				if r.is("[") || r.is("(") {
					r.skip()
				} else {
					r.at++
				}
			}
		}
		return // local and let: the name and its value follow as a field does
	}
	for r.peek(0).kind == markToken && (r.peek(0).text == "?" || r.peek(0).text == "!") {
		r.at++
	}
	if r.is("(") && r.dialect != hclDialect { // a function: its body counts, its parameters do not
		r.skip()
	}
	r.field(into, t.text, t.line)
}

// field reads the value of a key. HCL's blocks have labels instead of a colon.
func (r *braceReader) field(into *yaml.Node, key string, line int) {
	r.path = append(r.path, key)
	defer func() { r.path = r.path[:len(r.path)-1] }()
	if r.depth > maxDepth {
		r.at++
		return
	}
	r.depth++
	defer func() { r.depth-- }()
	if r.dialect == hclDialect && (r.is("{") || r.peek(0).kind == textToken || r.peek(0).kind == nameToken && r.peek(0).line == line) {
		labels := 0
		for r.peek(0).kind == textToken || r.peek(0).kind == nameToken && r.peek(0).line == line {
			r.path = append(r.path, r.next().text)
			labels++
		}
		n := newMap(line)
		if r.is("{") {
			r.at++
			r.fields(n)
			r.close("}")
		}
		r.path = r.path[:len(r.path)-labels]
		r.put(into, key, n)
		return
	}
	for r.is("+") {
		r.at++
	}
	colon := false
	for r.is(":") || r.is("=") {
		colon = true
		r.at++
	}
	if !colon {
		return
	}
	// CUE: a: b: c: value
	if t := r.peek(0); r.dialect == cueDialect && (t.kind == nameToken || t.kind == textToken) && t.line == line && r.colonAfter() {
		n := newMap(t.line)
		r.at++
		for r.is("?") || r.is("!") {
			r.at++
		}
		r.field(n, t.text, t.line)
		r.put(into, key, n)
		return
	}
	r.put(into, key, r.value(line))
}

func (r *braceReader) colonAfter() bool {
	i := 1
	for t := r.peek(i); t.kind == markToken && (t.text == "?" || t.text == "!"); t = r.peek(i) {
		i++
	}
	t := r.peek(i)
	return t.kind == markToken && t.text == ":"
}

// put adds a field. A key that stands twice, as blocks of HCL do, gives a list;
// maps of CUE, which are said in pieces, are joined.
func (r *braceReader) put(into *yaml.Node, key string, n *yaml.Node) {
	if n == nil {
		return
	}
	if n.Kind == yaml.ScalarNode {
		r.say(key, n.Value)
	}
	for i := 0; i+1 < len(into.Content); i += 2 {
		if into.Content[i].Value != key {
			continue
		}
		switch old := into.Content[i+1]; {
		case r.dialect != hclDialect && old.Kind == yaml.MappingNode && n.Kind == yaml.MappingNode:
			old.Content = append(old.Content, n.Content...)
		case old.Kind == yaml.SequenceNode && old.Tag == "!!blocks":
			old.Content = append(old.Content, n)
		default:
			into.Content[i+1] = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!blocks", Line: old.Line, Content: []*yaml.Node{old, n}}
		}
		return
	}
	into.Content = append(into.Content, newText(key, n.Line), n)
}

// say notes the text of a name, under the names by which others may call it.
func (r *braceReader) say(key, text string) {
	if strings.Contains(text, "${") || text == "" {
		return
	}
	names := []string{key, strings.Join(r.path, ".")}
	if n := len(r.path); r.dialect == hclDialect && n > 1 {
		names = names[:0]
		switch {
		case r.path[0] == "variable" && key == "default":
			names = append(names, "var."+r.path[1])
		case r.path[0] == "locals":
			names = append(names, "local."+key)
		}
	}
	for i, name := range names {
		if name != "" && (i == 0 || name != names[0]) {
			r.said[name] = append(r.said[name], text)
		}
	}
}

// skip leaves out the text in brackets.
func (r *braceReader) skip() {
	depth := 0
	for t := r.next(); t.kind != endToken; t = r.next() {
		if t.kind != markToken {
			continue
		}
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth <= 0 {
				return
			}
		}
	}
}

func (r *braceReader) list() *yaml.Node {
	n := newList(r.next().line)
	if r.depth > maxDepth {
		return n
	}
	r.depth++
	defer func() { r.depth-- }()
	for !r.is("]") && !r.is(")") && !r.is("}") && r.peek(0).kind != endToken {
		before := r.at
		line := r.peek(0).line
		// A named argument of a function.
		if t := r.peek(0); t.kind == nameToken && r.peek(1).kind == markToken && r.peek(1).text == "=" {
			m := newMap(t.line)
			r.at++
			r.field(m, t.text, t.line)
			n.Content = append(n.Content, m)
		} else if v := r.value(line); v != nil {
			n.Content = append(n.Content, v)
		}
		if r.at == before || r.is(",") {
			r.at++
		}
	}
	r.at++
	return n
}
