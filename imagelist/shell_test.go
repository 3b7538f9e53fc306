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

// TestHereTexts reads the texts that commands take as input: "LINE TEXT", with "?"
// where something in it is known only when the command runs.
func TestHereTexts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text, want string
	}{
		{"plain", "V=1\na <<E\nb $V\nE\nc", "3 b 1\n"},
		{"quoted", "V=1\na <<'E'\nb $V \\$\nE\n", "3 b $V \\$\n"},
		{"double quotes", "V=1\na << \"E F\"\nb $V\nE F\n", "3 b $V\n"},
		{"a backslash", "V=1\na <<\\E\nb $V\nE\n", "3 b $V\n"},
		{"tabs", "a <<-E\n\tb\n\tE\n", "2 b\n"},
		{"tabs that stay", "a <<E\n\tb\nE\n", "2 \tb\n"},
		{"another system's lines", "a <<E\nb\r\nE\r\nc", "2 b\r\n"},
		{"open", "a <<E\nb", "2 b\n"},
		{"empty", "a <<E\nE", "2 "},
		{"unknown", "a <<E\n$V\nE", "?2 $V\n"},
		{"computed", "a <<E\n$(b) `c`\nE", "?2 $(b) `c`\n"},
		{"dollars", "a <<E\n5$ $5 $\nE", "2 5$ $5 $\n"},
		{"letters", "a=1 z=2 A=3 Z=4 _=5\na=1\nz=2\nA=3\nZ=4\nb <<E\n$a$z$A$Z\nE", "?7 $a$z$A$Z\n"},
		{"the first and last letters", "a=1\nz=2\nA=3\nZ=4\n_q=5\nb <<E\n$a$z$A$Z$_q\nE", "7 12345\n"},
		{"escaped", "a <<E\nb \\$V \\\nc\\\nE", "2 b $V c"},
		{"a word", "V=1\na <<< \t\"b $V\" c", "2 b 1\n"},
		{"a word alone", "a <<<b;c", "1 b\n"},
		{"a word at the end", "a <<< ", "1 \n"},
		{"an unknown word", "a <<< $V", "?1 $V\n"},
		{"none", "a < b", ""},
	} {
		got := ""
		for _, c := range shellCommands(tc.text, nil) {
			if c.here != nil {
				got += fmt.Sprintf("%d %s", c.here.line, c.here.text)
				if c.here.dynamic {
					got = "?" + got
				}
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, not %q", tc.name, got, tc.want)
		}
	}
	// The commands behind a text have the lines of the file.
	if c := shellCommands("a <<E\nb\nc\nE\nd", nil); len(c) != 2 || c[1].line != 5 {
		t.Errorf("behind a text: %v", c)
	}
}
