package imagelist

import (
	"bytes"
	"regexp"
	"strings"
)

// actionMark stands where a template action was. It cannot be part of a
// reference, so that no text that depends on a template is taken for one.
const actionMark = "__TEMPLATE_ACTION__"

var (
	actionLine = regexp.MustCompile(`(?m)^[ \t]*(?:\{\{[^\n]*?\}\}[ \t]*)+(\r?)$`)
	action     = regexp.MustCompile(`\{\{[^\n]*?\}\}`)
)

// blankActions makes YAML of a Go template as far as that can be done without
// its values: lines that hold only actions become blank, an action inside a
// line a mark. The number of lines stays.
func blankActions(data []byte) []byte {
	if !bytes.Contains(data, []byte("{{")) {
		return data
	}
	out := make([]byte, 0, len(data)+len(data)/8)
	for line := range bytes.Lines(data) { // most have none, and need no expression
		if bytes.Contains(line, []byte("{{")) {
			line = actionLine.ReplaceAll(line, []byte("$1"))
			line = action.ReplaceAll(line, []byte(actionMark))
		}
		out = append(out, line...)
	}
	return out
}

// unmark replaces each mark by a short sign for a template action.
func unmark(s string) string { return strings.ReplaceAll(s, actionMark, "{{...}}") }
