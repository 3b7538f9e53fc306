package imagelist

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// flow writes a node on one line: {key: value}, [value].
func flow(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	var parts []string
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			parts[len(parts)-1] += ": " + flow(c)
		} else {
			parts = append(parts, flow(c))
		}
	}
	switch n.Kind {
	case yaml.MappingNode:
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return n.Value
}

func TestBraces(t *testing.T) {
	t.Parallel()
	cases := map[dialect][][2]string{
		cueDialect: {
			{`a: {{b: "x"}, c: "y"}`, `{a: {b: x, c: y}}`},
			{`a: {["k"]: "v", b: "w"}`, `{a: {: v, b: w}}`},
			{`a: {["k"], b: "w"}`, `{a: {: [k], b: w}}`},
			{`a?: "x"` + "\n" + `b!: "y"`, `{a: x, b: y}`},
			{`a: b: c: "x"`, `{a: {b: {c: x}}}`},
			{`a: "b": c?: d!: "x"`, `{a: {b: {c: {d: x}}}}`},
			{"a: {b: \"x\"}\na: {c: \"y\"}", `{a: {b: x, c: y}}`},
			{"a: [\"x\"]\na: [\"y\"]\na: [\"z\"]", `{a: [[x], [y], [z]]}`},
			{`a: "x"}} b: "y"`, `{a: x, b: y}`},
			{`[a`, `{: []}`},
			{``, ``},
			// A field without a value does not take the next one's.
			{"image: string\ntag: \"v1\"", `{tag: v1}`},
			{"a:\n \"x\"\nb: \"y\"", `{a: x, b: y}`},
			{"c: {a: \"x\"\n[\"k\"]: \"y\"}", `{c: {a: x, : y}}`},
			{`a: "x" | *"y" | *"z"`, `{a: y}`},
			{`a: string | *"x"`, `{a: x}`},
			{`a: ("x" + "y"), c: "z"`, `{a: xy, c: z}`},
			{`a: {b: ("x"), c: ("y", "z")}`, `{a: {b: x, c: [y, z]}}`},
			{`a: "x" | "y"`, `{a: [x, y]}`},
			{`a: base.T & {b: "y"}`, `{a: {b: y}}`},
			{`a: #T & {b: "y"}`, `{a: {b: y}}`},
			{`a: ["x"] & {b: "y"}`, `{a: [[x], {b: y}]}`},
			{`a: b.c, d: b, e: true`, `{a: ${b.c}}`},
			{"tag: \"v1\"\na: \"x:\\(tag)\", b: \"x:\\( c.tag )\", c: \"x:\\(.tag)\"", `{tag: v1, a: x:v1, b: x:v1, c: x:${.tag}}`},
			// Clauses, and names of the language that are keys.
			{`a: {if b == "x" {c: "y"}, d: "z"}`, `{a: {c: y, d: z}}`},
			{`a: {for k in ["x", "y"] {c: "y"}, d: "z"}`, `{a: {c: y, d: z}}`},
			{"a: {if b == \"x\"\nc: \"y\"}", `{a: {c: y}}`},
			{`a: {if b}, c: "y"`, `{a: {}, c: y}`},
			{"package a\nimport \"b\"\nimport (\n\"c\"\nd \"e\"\n)\nf: \"x\"", `{f: x}`},
			{"package: \"x\"\nif: a: \"y\"", `{package: x, if: {a: y}}`},
		},
		jsonnetDialect: {
			{`{"a": "x", 'import': "y"}`, `{a: x, import: y}`},
			{`{a: {f(x=(1), y=[2]):: {c: "i"}, b: "y"}}`, `{a: {f: {c: i}, b: y}}`},
			{`{a+: "x", b:: "y"}`, `{a: x, b: y}`},
			{`{a: if c.d then "x" else "y", b: "z"}`, `{a: [x, y], b: z}`},
			{"{a: if c.d\n then\n \"x\"\n else\n \"y\"}", `{a: [x, y]}`},
			{`{a: "x"} + {b: "y"}`, `{a: x, b: y}`},
			{`{a: {b: "x"} + {c: "y", b: "z"}}`, `{a: {b: [x, z], c: y}}`},
			{`{a: "%s:%s" % ["x", "y"], b: "x:%s" % "y", c: "%s" % {d: "z"}, e: "%s" % [f("x"), "y"]}`,
				`{a: x:y, b: x:y, c: {d: z}, e: y}`},
			{`{a: "x%s" + "y", b: "x" % "y", c: "%s" % "x" % "y"}`, `{a: x%sy, b: x, c: x}`},
			{`{a: if b then "x:" + "1" else if c.d then "y%s" % "1" else "z%s", e: ["x", if b then "y"]}`, `{a: [x:1, y1, z%s], e: [x, y]}`},
			{`{a: "x" + f("y"), b: "x" + ["y"], c: ["x"] + "y", d: "x" - "y"}`, `{a: {arguments: [y]}, b: [x, [y]], c: [[x], y], d: [x, y]}`},
			{`{a: f("x", "y")}`, `{a: {arguments: [x, y]}}`},
			{`{a: f(image = "x", "y")}`, `{a: {arguments: [{image: x}, y]}}`},
			{`{a: b, c: 0, d: 9, e: d#x` + "\n}", `{a: ${b}, e: ${d}}`},
			{`local c = {tag: "v1"}; {a: "x:" + c.tag, b: "x:" + d.e.tag, c: self.tag, d: $.tag}`, `{c: [{tag: v1}, v1], a: x:v1, b: x:v1, d: v1}`},
		},
		hclDialect: {
			{"a \"b\" c {\n  d = \"x\"\n}", `{a: {d: x}}`},
			{"a {\n  b = \"x\"\n}\na {\n  b = \"y\"\n}\na {\n}", `{a: [{b: x}, {b: y}, {}]}`},
			{"a\nb = \"x\"", `{b: x}`},
			{"a b\nc = \"x\"", `{a: {}, c: x}`},
			{"tag = \"v1\"\na = \"x:${tag}\"\nb = \"x:${c.tag}\"", `{tag: v1, a: x:v1, b: x:${c.tag}}`},
			{"variable \"v\" {\n  default = \"x\"\n  type = \"y\"\n}\nlocals {\n  l = \"z\"\n}\na = \"${var.v} ${local.l} ${var.w} ${default}\"",
				`{variable: {default: x, type: y}, locals: {l: z}, a: x z ${var.w} ${default}}`},
			{"a = f(x)\nb = (y)", `{a: {arguments: [${x}]}, b: ${y}}`},
			{`package = "x"`, `{package: x}`},
		},
	}
	for d, list := range cases {
		for _, tc := range list {
			if got := flow(readBraces([]byte(tc[0]), d)); got != tc[1] {
				t.Errorf("dialect %d: %s\ngives    %s\nexpected %s", d, tc[0], got, tc[1])
			}
		}
	}
}

// TestBracesDepth nests as deep as a document may be, and once more: the text
// inside is read as long as it may be there. Nesting that ends counts no more.
func TestBracesDepth(t *testing.T) {
	t.Parallel()
	nest := func(open string, n int, inside, shut string) string {
		return strings.Repeat(open, n) + inside + strings.Repeat(shut, n)
	}
	for name, tc := range map[string]struct {
		text  string
		depth int // of maps and lists around "deep"; 0: it is not there
	}{
		"braces":                   {nest("{", maxDepth, `a: "deep"`, "}"), 1},
		"braces, one too many":     {nest("{", maxDepth+1, `a: "deep"`, "}"), 1},
		"a map in braces":          {nest("{", maxDepth, `a: {b: "deep"}`, "}"), 0},
		"a map in fewer braces":    {nest("{", maxDepth-2, `a: {b: "deep"}`, "}"), 2},
		"a pattern in braces":      {nest("{", maxDepth, `["k"]: "deep"`, "}"), 0},
		"a pattern in fewer":       {nest("{", maxDepth-1, `["k"]: "deep"`, "}"), 1},
		"braces side by side":      {strings.Repeat("{}", maxDepth) + `a: {b: "deep"}`, 2},
		"keys":                     {nest("a: ", maxDepth+1, `"deep"`, ""), maxDepth + 1},
		"keys, one too many":       {nest("a: ", maxDepth+2, `"deep"`, ""), 0},
		"a key in braces":          {nest("{", maxDepth, `a: b: "deep"`, "}"), 0},
		"fields side by side":      {strings.Repeat("a: \"x\"\n", maxDepth+1) + `b: "deep"`, 1},
		"maps":                     {nest("a: {", maxDepth/2, `b: "deep"`, "}"), maxDepth/2 + 1},
		"maps, one too many":       {nest("a: {", maxDepth/2+1, `b: "deep"`, "}"), 0},
		"lists":                    {"a: " + nest("[", maxDepth, `"deep"`, "]"), maxDepth + 1},
		"lists and one that's not": {"a: " + nest("[", maxDepth+1, `"deep"`, "]"), maxDepth + 2},
		"lists side by side":       {"a: [" + strings.Repeat("[], ", maxDepth) + `["deep"]]`, 3},
		"maps side by side":        {"a: [" + strings.Repeat("{}, ", maxDepth) + `{b: "deep"}]`, 3},
	} {
		got := 0
		text := flow(readBraces([]byte(tc.text), cueDialect))
		if before, _, ok := strings.Cut(text, "deep"); ok {
			got = strings.Count(before, "{") + strings.Count(before, "[") - strings.Count(before, "}") - strings.Count(before, "]")
		}
		if got != tc.depth {
			t.Errorf("%s: depth %d, not %d", name, got, tc.depth)
		}
	}
}
