package imagelist

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// cutEnd is ${NAME%%PATTERN} and the like.
	cutEnd = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(%%|%|##|#)([^{}]*)\}$`)
	// cutPart is $(echo "$NAME" | cut …) and the same with awk.
	cutPart = regexp.MustCompile(`^\$\(\s*(?:echo|printf)\s+(?:'%s'\s+)?"?\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?"?\s*\|\s*(?:cut|awk)\s+([^|]*|[^|]*['"]\|['"][^|]*)\)$`)
	cutBy   = regexp.MustCompile(`-[dF]\s*(?:'(.)'|"(.)"|(\S))`)
	cutAt   = regexp.MustCompile(`(?:-f\s*|print\s+\$)([1-9])`)
)

// cut notes a variable that is another one, or cut out of one, whose words are known.
func (l scriptLoops) cut(a pair) {
	var from string
	var part func(string) (string, bool)
	if m := variableUse.FindStringSubmatch(a.value); m != nil {
		from, part = m[1], func(s string) (string, bool) { return s, true }
	} else if m := cutEnd.FindStringSubmatch(a.value); m != nil {
		from, part = m[1], func(s string) (string, bool) { return trimPattern(s, m[2], strings.Trim(m[3], `"'`)) }
	} else if m := cutPart.FindStringSubmatch(a.value); m != nil {
		from, part = m[1], fieldCutter(m[2])
	}
	source := l.at(from, a.line)
	if part == nil || source == nil || from == a.key {
		return
	}
	words := slices.Clone(source.words)
	for i := range words {
		var ok bool
		if words[i].text, ok = part(words[i].text); !ok || words[i].dynamic {
			return
		}
	}
	l.bind(&binding{name: a.key, line: a.line, words: words, group: source.group, from: source})
}

// trimPattern does what ${NAME%%PATTERN} and its kin do, for a pattern with one *
// at its open end.
func trimPattern(s, operator, pattern string) (string, bool) {
	behind := operator[0] == '%'
	text, star := strings.CutSuffix(pattern, "*")
	if !behind {
		text, star = strings.CutPrefix(pattern, "*")
	}
	if text == "" || strings.ContainsAny(text, "*?[$") {
		return "", false
	}
	at := strings.Index(s, text)
	if operator == "%" || operator == "##" { // the shortest from the end, the longest from the start
		at = strings.LastIndex(s, text)
	}
	switch {
	case !star && behind:
		return strings.TrimSuffix(s, text), true
	case !star:
		return strings.TrimPrefix(s, text), true
	case at < 0:
		return s, true
	case behind:
		return s[:at], true
	}
	return s[at+len(text):], true
}

// fieldCutter returns what the words of cut or awk take of a text, nil where they
// are not read.
func fieldCutter(words string) func(string) (string, bool) {
	at := cutAt.FindStringSubmatch(words)
	if at == nil {
		return nil
	}
	n, _ := strconv.Atoi(at[1])
	separator := " "
	if m := cutBy.FindStringSubmatch(words); m != nil {
		separator = m[1] + m[2] + m[3]
	}
	return func(s string) (string, bool) {
		parts := columns(s, separator, -1)
		if n > len(parts) {
			return "", len(parts) == 1 // cut writes the whole of a text without separator, which is rare
		}
		return parts[n-1], true
	}
}
