package parser

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/clusterimage/sealer/kubefile"
)

var (
	errQuote = errors.New("a quote is not closed")
	errJSON  = errors.New("it is no JSON list of strings")
)

const space = kubefile.Space

// cutWord returns the first word of s, with its quotes and escapes as written,
// and the text after it without leading white space.
func cutWord(s string, escape rune) (word, rest string, err error) {
	s = strings.TrimLeft(s, space)
	at, open := kubefile.Bare(s, escape, func(r rune) bool { return strings.ContainsRune(space, r) })
	switch {
	case open:
		return s, "", errQuote
	case at < 0:
		return s, "", nil
	}
	return s[:at], strings.TrimLeft(s[at:], space), nil
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

// cutBare cuts s at the first sep outside of quotes; sep is one byte long.
func cutBare(s string, sep, escape rune) (before, after string, found bool) {
	at, _ := kubefile.Bare(s, escape, func(r rune) bool { return r == sep })
	if at < 0 {
		return s, "", false
	}
	return s[:at], s[at+1:], true
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

// commandAsJSON reports whether a command that is no valid JSON list looks like
// one. "[" is a program, and "[[" a word of some shells; a word that begins with
// "[" otherwise is meant as a list.
func commandAsJSON(s string) bool {
	return meantAsJSON(s) || len(s) > 1 && s[0] == '[' && !strings.ContainsRune("["+space, rune(s[1]))
}

// meantAsJSON reports whether text that is no valid JSON list looks like one. "[
// -f x ] && y" is a shell's test, and "[ab].yaml" a pattern.
func meantAsJSON(s string) bool {
	inner, ok := strings.CutPrefix(s, "[")
	if !ok {
		return false
	}
	return strings.HasPrefix(inner, `"`) || strings.HasPrefix(inner, "'") || s == "[]"
}
