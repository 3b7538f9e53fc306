package imagelist

import "testing"

// TestActionLength finds the end of a template's action behind its texts and
// comments.
func TestActionLength(t *testing.T) {
	t.Parallel()
	for _, action := range []string{
		"{{}}", "{{ a }}", "{{- a -}}", "{{/* }} */}}", "{{- /* }} */ -}}", "{{/*/ }} */}}", "{{ `}}` }}", "{{ `` `}}` }}", "{{ \"}}\" }}", `{{ "\"}}" }}`, `{{ '}' }}`,
		`{{ "" "}}" }}`, "{{ \"a\n}}", "{{ a }}",
	} {
		for _, behind := range []string{"", " b }} `\"'", "}}"} {
			if got := actionLength(action + behind); got != len(action) {
				t.Errorf("%s: %d", action+behind, got)
			}
		}
	}
	for _, open := range []string{"{{", "{{ a", "{{ `a", "{{ \"a", "{{ \"a\\", "{{ 'a", "{{ /* }"} {
		if got := actionLength(open); got != len(open) {
			t.Errorf("%s, which does not end: %d", open, got)
		}
	}
}
