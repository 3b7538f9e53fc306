package imagelist

import (
	"cmp"
	"maps"
	"regexp"
	"strings"
)

// A word is one word of a shell command, quotes taken away.
type word struct {
	text    string
	dynamic bool   // some of the text is known only when the command runs
	line    int    // of its end
	file    string // where it stands, when that is another than the script
}

// A shellCommand is one simple command of a script.
type shellCommand struct {
	words  []word
	line   int  // counts from 1
	piped  bool // its input is another command's output
	here   *hereText
	before []shellCommand // of the script; set by who reads them
	called bool           // it stands in a function, and has the arguments of a call
}

// A hereText is the input of a command that stands in the script itself.
type hereText struct {
	text    string
	line    int  // of its first line
	dynamic bool // some of it is known only when the command runs
	quoted  bool // nothing in it is expanded
	tabs    bool // those at the beginning of lines are dropped
	end     string
}

var (
	shellName  = regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})`)
	shellElse  = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*):?-([^}$` + "`" + `]*)\}`)
	shellSet   = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=`)
	assignedAt = regexp.MustCompile(`(?m)(?:^|[;&|\s])(?:export\s+|local\s+|readonly\s+)?([A-Za-z_][A-Za-z0-9_]*)\+?=`)
)

// A shellReader cuts a script into simple commands, as far as the words of a
// POSIX shell need it: quotes, escapes, comments, separators, and variables that it
// is given, or sets once, to a plain text, or that have a plain default. Control structures are not
// followed: the commands in them are read as they stand.
type shellReader struct {
	text  string
	at    int
	line  int
	vars  map[string]string
	times map[string]int // how often a variable is set
	// partial are the values of variables with other variables in them; nil, where
	// the names of such variables stay in words.
	partial map[string]string

	out      []shellCommand
	assigned []pair      // the variables that are set to a plain text
	arrays   []shellList // NAME=(WORD …)
	array    string      // the name of the one that is being read
	// parts are words of loops that are put into images, and are none themselves;
	// set by who reads them.
	parts   map[string]bool
	current shellCommand
	pending []*hereText // whose lines begin behind this one
	here    []*hereText // all
	word    strings.Builder
	begun   bool // a word is begun, perhaps an empty one in quotes
	dynamic bool
}

// shellCommands returns the commands of a script that is given the variables env.
func shellCommands(text string, env map[string]string) []shellCommand {
	return readShell(text, env).out
}

func readShell(text string, env map[string]string) *shellReader {
	r := &shellReader{text: text, line: 1, vars: map[string]string{}, times: map[string]int{}}
	maps.Copy(r.vars, env)
	r.read()
	return r
}

// read reads the whole text.
func (r *shellReader) read() {
	for _, m := range assignedAt.FindAllStringSubmatch(r.text, -1) {
		r.times[m[1]]++
	}
	for r.at < len(r.text) {
		r.step()
	}
	r.endCommand(false)
}

// step reads one character outside of quotes, or all of a quoted text.
func (r *shellReader) step() {
	c := r.text[r.at]
	if r.inArray(c) {
		r.at++
		return
	}
	switch c {
	case '\\':
		r.escaped()
	case '\'':
		r.plainQuoted()
	case '"':
		r.quoted()
	case '$', '`':
		r.variable()
	case ' ', '\t', '\r':
		r.endWord()
		r.at++
	case '{', '}':
		if c == '{' && strings.HasPrefix(r.text[r.at:], "{}") { // a word of xargs and find
			r.add('{')
			r.add('}')
			r.at += 2
			return
		}
		r.endCommand(false)
		r.at++
	case '\n', ';', '&', '(', ')':
		r.endCommand(false)
		r.at++
		if c == '\n' {
			r.line++
			r.heredocs()
		}
	case '<':
		r.redirected()
	case '|':
		r.endCommand(!strings.HasPrefix(r.text[r.at:], "||"))
		r.at++
		if r.at < len(r.text) && r.text[r.at] == '|' {
			r.at++
		}
	case '#':
		if r.begun {
			r.add(c)
			r.at++
		} else if end := strings.IndexByte(r.text[r.at:], '\n'); end >= 0 {
			r.at += end
		} else {
			r.at = len(r.text)
		}
	default:
		r.add(c)
		r.at++
	}
}

func (r *shellReader) add(c byte) {
	r.word.WriteByte(c)
	r.begun = true
}

// escaped reads a backslash and the character behind it; it joins lines.
func (r *shellReader) escaped() {
	r.at++
	if r.at < len(r.text) && r.text[r.at] == '\n' {
		r.line++
	} else if r.at < len(r.text) {
		r.add(r.text[r.at])
	}
	r.at++
}

// plainQuoted reads a text in single quotes, in which nothing is expanded.
func (r *shellReader) plainQuoted() {
	end := strings.IndexByte(r.text[r.at+1:], '\'')
	if end < 0 {
		end = len(r.text) - r.at - 1
	}
	quoted := r.text[r.at+1 : r.at+1+end]
	r.word.WriteString(quoted)
	r.line += strings.Count(quoted, "\n")
	r.begun = true
	r.at = min(r.at+end+2, len(r.text))
}

// quoted reads a text in double quotes.
func (r *shellReader) quoted() {
	r.begun = true
	for r.at++; r.at < len(r.text); {
		switch c := r.text[r.at]; c {
		case '"':
			r.at++
			return
		case '\\':
			if r.at++; r.at < len(r.text) {
				r.word.WriteByte(r.text[r.at])
				r.at++
			}
		case '$', '`':
			r.variable()
		default:
			if c == '\n' {
				r.line++
			}
			r.word.WriteByte(c)
			r.at++
		}
	}
}

// variable reads $NAME, ${NAME} or ${NAME:-DEFAULT}; any other expansion makes the
// word dynamic.
func (r *shellReader) variable() {
	if m := shellElse.FindStringSubmatch(r.text[r.at:]); m != nil {
		value, ok := r.vars[m[1]]
		if !ok && r.times[m[1]] > 1 { // one is this, perhaps: NAME=${NAME:-DEFAULT}
			r.dynamic = true
			value = m[0]
		} else if value == "" {
			value = strings.Trim(m[2], `"'`)
		}
		r.word.WriteString(value)
		r.begun = true
		r.at += len(m[0])
		return
	}
	if m := shellName.FindStringSubmatch(r.text[r.at:]); m != nil {
		name := m[1] + m[2]
		if value, ok := r.vars[name]; ok {
			r.word.WriteString(value)
		} else {
			r.dynamic = true
			r.word.WriteString(cmp.Or(r.partial[name], m[0]))
		}
		r.begun = true
		r.at += len(m[0])
		return
	}
	r.dynamic = true
	end := r.at + 1
	switch rest := r.text[r.at:]; {
	case strings.HasPrefix(rest, "$("):
		end = r.at + closing(rest[1:], '(', ')') + 1
	case strings.HasPrefix(rest, "${"):
		end = r.at + closing(rest[1:], '{', '}') + 1
	case rest[0] == '`':
		if i := strings.IndexByte(rest[1:], '`'); i >= 0 {
			end = r.at + i + 2
		}
	}
	end = min(end, len(r.text))
	r.line += strings.Count(r.text[r.at:end], "\n")
	r.word.WriteString(r.text[r.at:end])
	r.begun, r.at = true, end
}

// closing returns the length of s up to the bracket that closes its first.
func closing(s string, open, shut byte) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case open:
			depth++
		case shut:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

func (r *shellReader) endWord() {
	if r.begun {
		if len(r.current.words) == 0 {
			r.current.line = r.line
		}
		r.current.words = append(r.current.words, word{text: r.word.String(), dynamic: r.dynamic, line: r.line})
	}
	r.word.Reset()
	r.begun, r.dynamic = false, false
}

// endCommand ends a command, whose output the next one reads when pipe is set.
func (r *shellReader) endCommand(pipe bool) {
	r.endWord()
	c := r.current
	r.current = shellCommand{piped: pipe}
	for len(c.words) > 0 {
		w := c.words[0]
		m := shellSet.FindStringSubmatch(w.text)
		if m != nil {
			r.assigned = append(r.assigned, pair{key: m[1], value: w.text[len(m[0]):], line: c.line})
		}
		switch {
		case m != nil && len(c.words) == 1 && !w.dynamic && r.times[m[1]] == 1 && len(w.text) < maxLine:
			r.vars[m[1]] = w.text[len(m[0]):]
		case m != nil && len(c.words) == 1:
			delete(r.vars, m[1])
			if value := w.text[len(m[0]):]; r.partial != nil && r.times[m[1]] == 1 && len(value) < maxPattern && !strings.Contains(value, "$(") {
				r.partial[m[1]] = value
			}
		case m == nil && !prefixWords[w.text]:
			r.out = append(r.out, c)
			return
		}
		c.words = c.words[1:]
	}
}

// prefixWords stand before a command and change nothing of its words.
var prefixWords = wordSet("if then else elif do while until ! time sudo exec nohup env export local readonly command")
