package imagelist

import (
	"fmt"
	"strings"
	"testing"
)

// TestBraceTokens lists the tokens of each dialect: names and marks as they are,
// texts in angle brackets, "N:" where a line differs from the one before.
func TestBraceTokens(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		dialect    dialect
		text, want string
	}{
		{cueDialect, "azAZ09_\u0100", "azAZ09_\u0100"},
		{cueDialect, "a.b.#c#d a. .b x.y", "a.b.#c#d a . . b x.y"},
		{cueDialect, "a.[b]", "a . [ b ]"},
		{cueDialect, "a.", "a ."},
		{cueDialect, "a.1 b.:", "a.1 b . :"},
		{cueDialect, "a-b", "a - b"},
		{hclDialect, "a-b", "a-b"},
		{cueDialect, "a // b \"\n/* c\n\" */ d", "a 3:d"},
		{cueDialect, "#A #\"b\\(c)\"# d", "#A <b\\(c)> d"},
		{hclDialect, "a # b\nc", "a 2:c"},
		{jsonnetDialect, "a # b\nc", "a 2:c"},
		{cueDialect, "\"\"\"\"\"\"a", "<> a"},
		{cueDialect, "'''\n'a'\n'''b", "3:<\n'a'\n> b"},
		{jsonnetDialect, "'''a'", "<> <a>"},
		{cueDialect, "`a` 'b'", "<a> <b>"},
		{jsonnetDialect, "`a` 'b'", "` a ` <b>"},
		{hclDialect, "'a'", "' a '"},
		{jsonnetDialect, "|||\n  a\n|||b", "3:<\n  a> b"},
		{cueDialect, "|||", "| | |"},
		{hclDialect, "x = <<-EOT\na\n  EOT\nb", "x = 2:<a\n> 4:b"},
		{hclDialect, "x = <<EOT\na\nb", "x = 2:<a\nb>"},
		{hclDialect, "a << b {\nc", "a < < b { 2:c"},
		{hclDialect, "a <<\nb\nc", "a < < 2:b 3:c"},
		{jsonnetDialect, "<<A\nb\nA", "< < A 2:b 3:A"},
		{cueDialect, "\"a\n\\n\\t\\\"\" b", "2:<a\n\n\t\"> b"},
		{cueDialect, `"a\(f("x"))b" c`, `<a\(f("x"))b> c`},
		{hclDialect, `"a${f("x")}b" c`, `<a${f("x")}b> c`},
		{jsonnetDialect, `"a\(f" ${x}`, `<a(f> $ { x }`},
		{jsonnetDialect, `"a${f("`, `<a${f(>`},
		{cueDialect, `"a${f("`, `<a${f(>`},
		{cueDialect, `"a`, `<a>`},
		{cueDialect, `"a\`, `<a\>`},
		{jsonnetDialect, "$.a.b $ .c $x $", "$.a.b $ . c $x $"},
		{jsonnetDialect, "a#b\nc.#d", "a 2:c ."},
	} {
		var b strings.Builder
		line := 1
		for i, tok := range braceTokens(tc.text, tc.dialect) {
			if i > 0 {
				b.WriteByte(' ')
			}
			if tok.line != line {
				fmt.Fprintf(&b, "%d:", tok.line)
				line = tok.line
			}
			if tok.kind == textToken {
				tok.text = "<" + tok.text + ">"
			}
			b.WriteString(tok.text)
		}
		if got := b.String(); got != tc.want {
			t.Errorf("dialect %d: %q gives\n%q, not\n%q", tc.dialect, tc.text, got, tc.want)
		}
	}
}
