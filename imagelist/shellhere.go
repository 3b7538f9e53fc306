package imagelist

import (
	"regexp"
	"strings"
)

var hereEnd = regexp.MustCompile(`^<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n]+)"|(\\?)([^\s;&|<>()'"` + "`" + `]+))`)

// redirected reads <: a word like others, or the mark of a text that stands below.
func (r *shellReader) redirected() {
	rest := r.text[r.at:]
	if m := hereEnd.FindStringSubmatch(rest); m != nil && !strings.HasPrefix(rest, "<<<") {
		r.endWord()
		h := &hereText{end: m[2] + m[3] + m[5], quoted: m[5] == "" || m[4] != "", tabs: m[1] != ""}
		r.current.here = h
		r.pending, r.here = append(r.pending, h), append(r.here, h)
		r.at += len(m[0])
		return
	}
	if strings.HasPrefix(rest, "<<<") {
		r.endWord()
		r.at += 3
		r.hereWord()
		return
	}
	r.add('<')
	r.at++
}

// hereWord reads the word behind <<< as the input of the command.
func (r *shellReader) hereWord() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
	line := r.line
	for r.at < len(r.text) && !strings.ContainsRune(" \t\r\n;&|()", rune(r.text[r.at])) {
		r.step()
	}
	r.current.here = &hereText{text: r.word.String() + "\n", line: line, dynamic: r.dynamic}
	r.word.Reset()
	r.begun, r.dynamic = false, false
}

// heredocs reads the lines of the texts that the line before announced.
func (r *shellReader) heredocs() {
	pending := r.pending
	r.pending = nil
	for _, h := range pending {
		h.line = r.line
		var text strings.Builder
		for r.at < len(r.text) {
			l, _, whole := strings.Cut(r.text[r.at:], "\n")
			r.at += len(l)
			if whole {
				r.at++
				r.line++
			}
			if h.tabs {
				l = strings.TrimLeft(l, "\t")
			}
			if strings.TrimSuffix(l, "\r") == h.end {
				break
			}
			text.WriteString(l + "\n")
		}
		h.text = text.String()
		if !h.quoted {
			h.text, h.dynamic = r.expanded(h.text)
		}
	}
}

// expanded puts the known variables into a text, and tells whether others are
// left in it.
func (r *shellReader) expanded(text string) (string, bool) {
	inner := shellReader{text: text, vars: r.vars, times: r.times}
	for inner.at < len(text) {
		switch c := text[inner.at]; c {
		case '$', '`':
			if c == '$' && (inner.at+1 == len(text) || !strings.ContainsRune("{(_", rune(text[inner.at+1])) && !isLetter(text[inner.at+1])) {
				inner.add(c) // $ by itself
				inner.at++
				continue
			}
			inner.variable()
		case '\\':
			if inner.at++; inner.at < len(text) && text[inner.at] != '\n' {
				inner.add(text[inner.at])
			}
			inner.at++
		default:
			inner.add(c)
			inner.at++
		}
	}
	return inner.word.String(), inner.dynamic
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
