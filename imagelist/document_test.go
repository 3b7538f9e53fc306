package imagelist

import (
	"errors"
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

// TestSplitHelm cuts a rendered file as Helm does: at each marker at the beginning
// of a line, the white space around it taken away.
func TestSplitHelm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{" \n", nil},
		{"---", nil},
		{"---\na: 1\n---", []string{"1: a: 1"}},
		{"------a", []string{"0: ---a"}},
		{"a---b: 1\n---\nc", []string{"0: a---b: 1", "2: c"}},
		{"a\n ---b\n--- c\n\n---d", []string{"0: a\n ---b", "2: c", "4: d"}},
		{"\n\n---\n\n---\na", []string{"4: ---\na"}},
	} {
		var got []string
		for _, c := range splitHelm([]byte(tc.text)) {
			got = append(got, fmt.Sprintf("%d: %s", c.line, c.data))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestParseYAML(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "null": "", "~": "", "# a": "", "a": "a", "'null'": "null", "[~]": "[~]", "a: b": "{a: b}"} {
		n, err := parseYAML([]byte(text))
		if got := flow(n); got != want || err != nil {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for want, err := range map[string]error{
		"3: bad": errors.New("yaml: line 3: bad"), "1: bad": errors.New("yaml: bad"), "1: other": errors.New("other"),
		"1: yaml: " + errTooLarge.Error(): fmt.Errorf("yaml: %w", errTooLarge),
	} {
		line, err := yamlErrorLine(err)
		if got := fmt.Sprintf("%d: %v", line, err); got != want {
			t.Errorf("%q, not %q", got, want)
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
