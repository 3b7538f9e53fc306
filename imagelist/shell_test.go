package imagelist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShellCommands has texts at whose ends, quotes and line breaks a reader of
// shell may go wrong. A command is "LINE: [words]", with "<" when it is piped into.
func TestShellCommands(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"words", "a  b\tc\r\n", []string{"1: [a b c]"}},
		{"lines", "a\n\nb; c & d\n( e ) { f }", []string{"1: [a]", "3: [b]", "3: [c]", "3: [d]", "4: [e]", "4: [f]"}},
		{"continued", "a \\\n  b \\\n c\nd", []string{"1: [a b c]", "4: [d]"}},
		{"a backslash at the end", "a b\\", []string{"1: [a b]"}},
		{"escaped", `a\ b \#c`, []string{"1: [a b #c]"}},
		{"single quotes", "a 'b c\n d' e\nf", []string{"1: [a b c  d e]", "3: [f]"}},
		{"empty quotes", "'' a ''", []string{"1: [ a ]"}},
		{"an open single quote", "a 'b c", []string{"1: [a b c]"}},
		{"double quotes", "a \"b \\\" c\nd\" e\nf", []string{"1: [a b \" c d e]", "3: [f]"}},
		{"an open double quote", `a "b c`, []string{"1: [a b c]"}},
		{"a backslash in an open quote", `a "b\`, []string{"1: [a b]"}},
		{"pipes", "a | b || c && d |", []string{"1: [a]", "1: [b]<", "1: [c]", "1: [d]"}},
		{"or at the end", "a ||", []string{"1: [a]"}},
		{"a pipe over lines", "a |\nb", []string{"1: [a]", "2: [b]"}},
		{"comments", "# x y\na # b\nc#d\n  #e", []string{"2: [a]", "3: [c#d]"}},
		{"an empty comment", "#\na", []string{"2: [a]"}},
		{"variables", "V=1\na $V ${V}x $W", []string{"2: [a 1 1x $W]"}},
		{"a variable in quotes", "V='1 2'\na \"$V\" '$V'", []string{"2: [a 1 2 $V]"}},
		{"set twice", "V=1\nV=2\na $V", []string{"3: [a $V]"}},
		{"computed", "a $(b c; (d)) ${E:-f} `g h` i", []string{"1: [a $(b c; (d)) f `g h` i]"}},
		{"computed over lines", "a $(b\nc) d\ne", []string{"1: [a $(b c) d]", "3: [e]"}},
		{"open", "a $(b c", []string{"1: [a $(b c]"}},
		{"open braces", "a ${b c", []string{"1: [a ${b c]"}},
		{"an open backquote", "a `b c", []string{"1: [a `b c]"}},
		{"a lone dollar", "a $", []string{"1: [a $]"}},
	} {
		var got []string
		for _, c := range shellCommands(tc.text, nil) {
			var words []string
			for _, w := range c.words {
				words = append(words, w.text)
			}
			line := fmt.Sprintf("%d: %v", c.line, strings.ReplaceAll(fmt.Sprint(words), "\n", " "))
			if c.piped {
				line += "<"
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// TestDynamic tells the words that are known only when the command runs.
func TestDynamic(t *testing.T) {
	t.Parallel()
	cmd := shellCommands("V=1\na $V $W \"$W\" '$W' $(b) `c` ${W:-d} e$ ", nil)[0]
	var got []bool
	for _, w := range cmd.words {
		got = append(got, w.dynamic)
	}
	if diff := cmp.Diff([]bool{false, false, true, true, false, true, true, false, true}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
