package imagelist

import (
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzBraces reads arbitrary text in each dialect: the reading ends, its nodes are
// no deeper than documents may be, and none stands before the first line.
func FuzzBraces(f *testing.F) {
	for _, seed := range []string{
		"a: b: c: \"x\"\nimage: string | *\"quay.io/x/a:1\"", "local t = 'v1'; { image: 'a:%s' % [t], f(x):: { y: x } }", "[1, {a: 'b'}, |||\n x\n|||]",
		"variable \"x\" {\n default = \"a\"\n}\nresource \"r\" \"n\" {\n image = \"${var.x}:1\"\n x = <<EOT\n a\nEOT\n}", "#\"a\"# \"\\(b)\" {{{[[[((( \"\"\"",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, d := range []dialect{cueDialect, jsonnetDialect, hclDialect} {
			var walk func(n *yaml.Node, depth int)
			walk = func(n *yaml.Node, depth int) {
				if depth > 2*maxDepth+8 || n.Line < 1 {
					t.Fatalf("dialect %d: depth %d, line %d", d, depth, n.Line)
				}
				for _, c := range n.Content {
					walk(c, depth+1)
				}
			}
			if n := readBraces([]byte(text), d); n != nil {
				walk(n, 0)
			}
		}
	})
}
