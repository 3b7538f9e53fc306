package imagelist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSplitYAML cuts files at the markers of documents. A chunk is
// "LINES BEFORE: text".
func TestSplitYAML(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", []string{"0: "}},
		{"a: 1", []string{"0: a: 1"}},
		{"---\na: 1\n", []string{"0: ---\na: 1\n"}},
		{"a: 1\n---\nb: 1", []string{"0: a: 1\n", "1: ---\nb: 1"}},
		{"\n\n---\na: 1\n\n---", []string{"0: \n\n", "2: ---\na: 1\n\n", "5: ---"}},
		{"%YAML 1.2\n# note\n\n---\na: 1\n", []string{"0: %YAML 1.2\n# note\n\n---\na: 1\n"}},
		{"# note\n---\na: 1\n", []string{"0: # note\n", "1: ---\na: 1\n"}},
		{"%TAG ! x\na: 1\n---\nb: 1\n", []string{"0: %TAG ! x\na: 1\n", "2: ---\nb: 1\n"}},
		{"---\n---\n", []string{"0: ---\n", "1: ---\n"}},
		{"a: |\n  ---\n---x\n--- # b\n", []string{"0: a: |\n  ---\n---x\n", "3: --- # b\n"}},
	} {
		var got []string
		for _, c := range splitYAML([]byte(tc.text)) {
			got = append(got, fmt.Sprintf("%d: %s", c.line, c.data))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 121)
	for in, want := range map[string]string{
		"": "", long[:120]: long[:120], long: long[:117] + "...",
		strings.Repeat("a", 116) + "ä" + long: strings.Repeat("a", 116) + "...", // no half of a letter
		strings.Repeat("a", 115) + "ä" + long: strings.Repeat("a", 115) + "ä...",
	} {
		if got := shorten(in); got != want {
			t.Errorf("shorten(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLooksLikeJSON(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{"": false, "{": false, "[": false, "{}": true, "[]": true, "{{ .x }}": false, " \n{\"a\": 1}": true, "[1]": true, "a: {}": false, "\"a\"": false} {
		if got := looksLikeJSON([]byte(in)); got != want {
			t.Errorf("looksLikeJSON(%q) = %t", in, got)
		}
	}
}
