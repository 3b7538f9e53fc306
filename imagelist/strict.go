package imagelist

import "strings"

// isPlaceholder reports whether a text waits to be replaced: template
// actions, variables, <angle brackets>, +plus signs+, REPLACE_ME.
func isPlaceholder(s string) bool {
	return strings.ContainsAny(s, "{}$<>%+") || strings.Contains(s, "$(") || strings.Contains(s, actionMark) ||
		strings.Contains(strings.ToUpper(s), "REPLACE") || strings.Contains(strings.ToUpper(s), "PLACEHOLDER") || strings.Contains(strings.ToUpper(s), "CHANGEME")
}
