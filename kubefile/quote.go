package kubefile

// Space are the characters that separate words.
const Space = " \t\r\n\v\f"

// Bare returns the index of the first rune of s, outside of quotes and escapes,
// that stop accepts, or -1. open reports whether a quote was open at that point.
func Bare(s string, escape rune, stop func(rune) bool) (at int, open bool) {
	quote := rune(0)
	escaped := false
	for i, r := range s {
		switch {
		case escaped:
			escaped = false
		case r == escape && quote != '\'':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case stop(r):
			return i, false
		}
	}
	return -1, quote != 0
}
