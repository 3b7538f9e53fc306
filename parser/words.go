package parser

import (
	"encoding/json"
	"errors"
	"strings"
)

var (
	errQuote = errors.New("a quote is not closed")
	errJSON  = errors.New("it is no JSON list of strings")
)

const space = " \t\r\n\v\f"

// cutWord returns the first word of s with its quotes and escapes as written,
// and what follows it without leading white space.
func cutWord(s string, escape rune) (word, rest string, err error) {
	s = strings.TrimLeft(s, space)
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
		case strings.ContainsRune(space, r):
			return s[:i], strings.TrimLeft(s[i:], space), nil
		}
	}
	if quote != 0 {
		return s, "", errQuote
	}
	return s, "", nil
}

// splitWords returns the words of s.
func splitWords(s string, escape rune) ([]string, error) {
	var out []string
	for s = strings.Trim(s, space); s != ""; {
		word, rest, err := cutWord(s, escape)
		if err != nil {
			return nil, err
		}
		out = append(out, word)
		s = rest
	}
	return out, nil
}

// cutFlags takes the leading words that begin with "--" from s.
func cutFlags(s string, escape rune) (flags []string, rest string, err error) {
	for s = strings.TrimLeft(s, space); strings.HasPrefix(s, "--"); {
		word, after, err := cutWord(s, escape)
		if err != nil {
			return flags, s, err
		}
		s = after
		if word == "--" {
			break
		}
		flags = append(flags, word)
	}
	return flags, strings.TrimRight(s, space), nil
}

// cutBare cuts s at the first sep outside of quotes.
func cutBare(s string, sep, escape rune) (before, after string, found bool) {
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
		case r == sep:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// jsonList reads a JSON list of strings.
func jsonList(s string) ([]string, error) {
	if !strings.HasPrefix(s, "[") {
		return nil, errJSON
	}
	var items []*string
	if err := json.Unmarshal([]byte(s), &items); err != nil {
		return nil, errJSON
	}
	out := make([]string, len(items))
	for i, p := range items {
		if p == nil {
			return nil, errJSON // null
		}
		out[i] = *p
	}
	return out, nil
}

// meantAsJSON reports whether text that is no valid JSON list was meant as
// one. "[ -f x ] && y" is a shell's test, and "[ab].yaml" a pattern.
func meantAsJSON(s string) bool {
	inner, ok := strings.CutPrefix(s, "[")
	if !ok {
		return false
	}
	return strings.HasPrefix(inner, `"`) || strings.HasPrefix(inner, "'") || s == "[]"
}
