package sbom

import "strings"

// NoAssertion is SPDX's word for a value that nobody states.
const NoAssertion = "NOASSERTION"

// isExpression reports whether s has the form of an SPDX license expression that
// needs no definition beside it (SPDX 2.3, annex D): identifiers joined by AND, OR
// and WITH, with parentheses. A LicenseRef is defined in the document that it
// comes from alone. Whether an identifier is on SPDX's list is not asked.
func isExpression(s string) bool {
	words := strings.Fields(strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s))
	open, wantName := 0, true
	for i, w := range words {
		operator := w == "AND" || w == "OR" || w == "WITH"
		switch {
		case w == "(" && wantName && (i == 0 || words[i-1] != "WITH"):
			open++
		case w == ")" && !wantName && open > 0:
			open--
		case operator && !wantName && (w != "WITH" || words[i-1] != ")"):
			wantName = true
		case !operator && wantName && isLicenseID(w):
			wantName = false
		default:
			return false
		}
	}
	return len(words) > 0 && open == 0 && !wantName
}

// isLicenseID reports whether s is an idstring, with the + for "or later".
func isLicenseID(s string) bool {
	s = strings.TrimSuffix(s, "+")
	if s == "" || strings.HasPrefix(s, "LicenseRef-") || strings.HasPrefix(s, "DocumentRef-") || s == NoAssertion || s == "NONE" {
		return false
	}
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-") == ""
}
