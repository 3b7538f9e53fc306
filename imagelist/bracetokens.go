package imagelist

import "strings"

type tokenKind int

const (
	endToken  tokenKind = iota
	markToken           // one character of punctuation
	nameToken           // a name, with dots, or a number
	textToken           // a string, its quotes and escapes taken away
)

type braceToken struct {
	kind tokenKind
	text string
	line int // where it ends
}

// A braceLexer cuts a text into tokens. A text that does not end goes to the end
// of the file.
type braceLexer struct {
	text    string
	at      int
	line    int
	dialect dialect
	out     []braceToken
}

func braceTokens(text string, d dialect) []braceToken {
	l := &braceLexer{text: text, line: 1, dialect: d}
	for l.at < len(l.text) {
		l.step()
	}
	return l.out
}

func (l *braceLexer) add(kind tokenKind, text string) {
	l.out = append(l.out, braceToken{kind, text, l.line})
}

func (l *braceLexer) starts(prefix string) bool { return strings.HasPrefix(l.text[l.at:], prefix) }

// to moves behind the next end, and returns the text before it.
func (l *braceLexer) to(end string) string {
	rest := l.text[l.at:]
	i := strings.Index(rest, end)
	if i < 0 {
		i, end = len(rest), ""
	}
	l.line += strings.Count(rest[:i+len(end)], "\n")
	l.at += i + len(end)
	return rest[:i]
}

func (l *braceLexer) step() {
	switch c := l.text[l.at]; {
	case c == '\n':
		l.line++
		l.at++
	case c == ' ' || c == '\t' || c == '\r':
		l.at++
	case l.starts("//") || c == '#' && l.dialect != cueDialect:
		l.to("\n")
	case l.starts("/*"):
		l.to("*/")
	case c == '#' && l.dialect == cueDialect && l.raw():
	case l.starts(`"""`) || l.starts("'''") && l.dialect == cueDialect:
		end := l.text[l.at : l.at+3]
		l.at += 3
		l.add(textToken, l.to(end))
	case l.starts("|||") && l.dialect == jsonnetDialect:
		l.at += 3
		l.add(textToken, l.to("\n"+"|||")) // an indented end comes with the text
	case l.starts("<<") && l.dialect == hclDialect:
		l.heredoc()
	case c == '"' || c == '\'' && l.dialect != hclDialect || c == '`' && l.dialect == cueDialect:
		l.quoted(c)
	case isNameByte(c) || c == '#' || c == '$':
		from := l.at
		for l.at++; l.inName(l.at) || l.starts(".") && l.inName(l.at+1) || l.starts("-") && l.dialect == hclDialect; l.at++ {
		}
		l.add(nameToken, l.text[from:l.at])
	default:
		l.add(markToken, string(c))
		l.at++
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80
}

// inName reports whether the byte at i continues a name; CUE's have number signs.
func (l *braceLexer) inName(i int) bool {
	return i < len(l.text) && (isNameByte(l.text[i]) || l.text[i] == '#' && l.dialect == cueDialect)
}

// raw reads CUE's #"text"#.
func (l *braceLexer) raw() bool {
	if !l.starts(`#"`) {
		return false
	}
	l.at += 2
	l.add(textToken, l.to(`"#`))
	return true
}

// heredoc reads HCL's <<END, or is two marks.
func (l *braceLexer) heredoc() {
	rest := strings.TrimPrefix(l.text[l.at+2:], "-")
	end, _, ok := strings.Cut(rest, "\n")
	end = strings.TrimSpace(end)
	if !ok || end == "" || strings.ContainsAny(end, " \t{}()[]\"") {
		l.add(markToken, "<")
		l.at++
		return
	}
	l.to("\n")
	from, line := l.at, l.line
	for l.at < len(l.text) {
		before := l.at
		if strings.TrimSpace(l.to("\n")) == end {
			l.out = append(l.out, braceToken{textToken, l.text[from:before], line})
			return
		}
	}
	l.out = append(l.out, braceToken{textToken, l.text[from:], line})
}

// quoted reads a text in single or double quotes. An interpolation may have
// quotes of its own: it goes to its closing bracket.
func (l *braceLexer) quoted(quote byte) {
	var b strings.Builder
	for l.at++; l.at < len(l.text); l.at++ {
		switch c := l.text[l.at]; {
		case c == quote:
			l.at++
			l.add(textToken, b.String())
			return
		case c == '\n':
			l.line++
			b.WriteByte(c)
		case c == '\\' && l.dialect == cueDialect && l.starts(`\(`):
			n := closing(l.text[l.at+1:min(len(l.text), l.at+maxLine)], '(', ')')
			b.WriteString(l.text[l.at : l.at+1+n])
			l.at += n
		case c == '$' && l.dialect == hclDialect && l.starts("${"):
			n := closing(l.text[l.at+1:min(len(l.text), l.at+maxLine)], '{', '}')
			b.WriteString(l.text[l.at : l.at+1+n])
			l.at += n
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			switch e := l.text[l.at]; e {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			default:
				b.WriteByte(e)
			}
		default:
			b.WriteByte(c)
		}
	}
	l.add(textToken, b.String())
}
