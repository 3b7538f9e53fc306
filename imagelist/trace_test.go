package imagelist

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTrace finds the template's line of each line of a rendering that holds an
// image. Lines are numbered from 1; 0 is unknown.
func TestTrace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                string
		template, rendering []string
		want                []int // by line of the rendering
	}{
		{"as it stands",
			[]string{"a: 1", "image: x"},
			[]string{"a: 1", "image: x"}, []int{1, 2}},
		{"first and last",
			[]string{"image: {{ .a }}", "b: 1", "image: {{ .c }}"},
			[]string{"image: x", "b: 1", "image: y"}, []int{1, 2, 3}},
		{"a line left out",
			[]string{"{{ if .x }}", "x: 1", "{{ end }}", "b: 1", "image: {{ .c }}"},
			[]string{"b: 1", "image: y"}, []int{4, 5}},
		{"one of two branches",
			[]string{"{{ if .x }}", "image: a/{{ .x }}", "{{ else }}", "image: b/{{ .y }}", "{{ end }}"},
			[]string{"image: b/1"}, []int{4}},
		{"between anchors",
			[]string{"image: {{ .a }}", "one: 1", "image: {{ .b }}", "two: 2", "image: {{ .c }}"},
			[]string{"one: 1", "image: x", "two: 2"}, []int{2, 3, 4}},
		{"behind an anchor only",
			[]string{"image: {{ .a }}", "one: 1", "image: {{ .b }}"},
			[]string{"one: 1", "image: x"}, []int{2, 3}},
		{"before an anchor only",
			[]string{"image: {{ .a }}", "one: 1", "image: {{ .b }}"},
			[]string{"image: x", "one: 1"}, []int{1, 2}},
		{"a loop over two lines",
			[]string{"list:", "{{ range .x }}", "- image: {{ .a }}", "- image: {{ .b }}", "{{ end }}"},
			[]string{"list:", "- image: 1", "- image: 2", "- image: 3", "- image: 4"}, []int{1, 3, 4, 3, 4}},
		{"a helper",
			[]string{"a: 1", "{{ include \"x\" . }}", "b: 1"},
			[]string{"a: 1", "image: x", "b: 1"}, []int{1, 2, 3}},
		{"two helpers",
			[]string{"a: 1", "{{ include \"x\" . }}", "{{ toYaml .y }}", "b: 1"},
			[]string{"a: 1", "image: x", "b: 1"}, []int{1, 0, 4}},
		{"a helper at the first line",
			[]string{"{{ tpl .x . }}"},
			[]string{"image: x"}, []int{1}},
		{"nothing like it",
			[]string{"a: 1", "name: {{ .x }}"},
			[]string{"a: 1", "image: x"}, []int{1, 0}},
		{"the longest common lines",
			[]string{"a: 1", "b: 1", "c: 1", "a: 1", "d: 1"},
			[]string{"a: 1", "c: 1", "a: 1", "d: 1"}, []int{1, 3, 4, 5}},
		{"the longer of two ways",
			[]string{"x: 1", "a: 1", "b: 1", "c: 1", "y: 1"},
			[]string{"a: 1", "b: 1", "c: 1", "x: 1"}, []int{2, 3, 4, 0}},
	} {
		found := make([]Finding, len(tc.rendering))
		for i := range found {
			found[i].Rendered = i + 1
		}
		trace(found, strings.Join(tc.template, "\n"), strings.Join(tc.rendering, "\n"))
		var got []int
		for _, f := range found {
			got = append(got, f.Line)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	for name, line := range map[string]int{"no line": 0, "behind the end": 2} {
		found := []Finding{{Rendered: line}}
		trace(found, "image: x", "image: x")
		if found[0].Line != 0 {
			t.Errorf("%s: line %d", name, found[0].Line)
		}
	}
	many := []Finding{{Rendered: 1}}
	trace(many, strings.Repeat("a: 1\n", 3000), strings.Repeat("a: 1\n", 3000)) // quadratic: it is left
	if many[0].Line != 0 {
		t.Errorf("too many lines: line %d", many[0].Line)
	}
}
