package imagelist

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A binding is what a loop gives to a variable.
type binding struct {
	name  string
	line  int // where the loop begins
	words []word
	// group names the loop. Variables of one group have as many words, those of one
	// turn at the same place.
	group  string
	arrays []string // that the loop goes through
	whole  bool     // a program pulls the variable itself
	part   bool     // a program pulls something that the variable is a part of
	from   *binding // that the words are cut out of
}

// scriptLoops are the bindings of a script, by variable, in the order of their lines.
type scriptLoops map[string][]*binding

func (l scriptLoops) bind(b *binding) {
	all := append(l[b.name], b)
	slices.SortStableFunc(all, func(a, b *binding) int { return a.line - b.line })
	l[b.name] = all
}

// at is the binding of a variable in a line: the last one before it, else the first.
func (l scriptLoops) at(name string, line int) *binding {
	var last *binding
	for _, b := range l[name] {
		if last == nil || b.line <= line {
			last = b
		}
	}
	return last
}

// loopsOf reads the loops of a script: for, read from a text or a file, and what
// is cut out of their variables. arrays gets the arrays that the script reads.
func (s *scanner) loopsOf(p place, sh *shellReader, arrays map[string][]word) scriptLoops {
	l := scriptLoops{}
	for i, cmd := range sh.out {
		switch name := cmd.words[0].text; {
		case name == "mapfile" || name == "readarray":
			last := cmd.words[len(cmd.words)-1]
			for _, w := range cmd.words[1:] {
				if shellSet.MatchString(w.text + "=") {
					last = w
				}
			}
			arrays[last.text] = append(arrays[last.text], s.input(p, sh, i)...)
		case name == "for" && len(cmd.words) > 3 && cmd.words[2].text == "in":
			s.forLoop(p, cmd, arrays, l)
		}
	}
	for i, cmd := range sh.out {
		if cmd.words[0].text == "read" {
			s.readLoop(p, sh, i, arrays, l)
		}
	}
	for _, a := range sh.assigned {
		l.cut(a)
	}
	return l
}

// forLoop reads "for NAME in WORD …".
func (s *scanner) forLoop(p place, cmd shellCommand, arrays map[string][]word, l scriptLoops) {
	b := &binding{name: cmd.words[1].text, line: cmd.line}
	b.group = fmt.Sprintf("%s %d", b.name, b.line)
	for _, w := range cmd.words[3:] {
		if m := arrayUse.FindStringSubmatch(w.text); m != nil {
			b.words = append(b.words, arrays[m[1]]...)
			b.arrays = append(b.arrays, m[1])
		} else if m := catFile.FindStringSubmatch(w.text); m != nil {
			b.words = append(b.words, s.rowsOfFile(p, m[1])...)
		} else {
			b.words = append(b.words, fieldsOf(w)...)
		}
	}
	l.bind(b)
}

// catFile is the content of a file: $(cat NAME), $(grep -v '^#' NAME), $(<NAME).
var catFile = regexp.MustCompile(`^\$\((?:cat\s+|grep\s+-v\s+\S+\s+|<\s*)"?([^\s"|;&()]+)"?\s*\)$`)

// readLoop reads "read NAME …": the columns of each row of its input.
func (s *scanner) readLoop(p place, sh *shellReader, i int, arrays map[string][]word, l scriptLoops) {
	cmd := sh.out[i]
	names, array := readNames(cmd.words[1:])
	separator := " "
	for _, a := range sh.assigned {
		if a.key == "IFS" && a.line == cmd.line && !strings.Contains(a.value, "$") {
			separator = a.value
		}
	}
	rows, group := []word(nil), fmt.Sprintf("%s %d", strings.Join(names, " "), cmd.line)
	var from *binding
	if cmd.here != nil && cmd.here.dynamic {
		if m := variableUse.FindStringSubmatch(strings.TrimSpace(cmd.here.text)); m != nil && l[m[1]] != nil {
			from = l.at(m[1], cmd.line)
			rows, group = from.words, from.group
		}
	}
	if rows == nil {
		rows = s.input(p, sh, i)
	}
	if array != "" {
		for _, r := range rows {
			for _, text := range columns(r.text, separator, -1) {
				arrays[array] = append(arrays[array], word{text: text, dynamic: r.dynamic, line: r.line, file: r.file})
			}
		}
		return
	}
	for j, name := range names {
		b := &binding{name: name, line: cmd.line, group: group, from: from}
		for _, r := range rows {
			w := r
			w.text = ""
			if parts := columns(r.text, separator, len(names)); j < len(parts) {
				w.text = parts[j]
			}
			w.dynamic = r.dynamic && strings.Contains(w.text, "$")
			b.words = append(b.words, w)
		}
		if len(rows) > 0 {
			l.bind(b)
		}
	}
}

// readNames are the variables that the command read sets, and the array (-a).
func readNames(words []word) (names []string, array string) {
	for i := 0; i < len(words); i++ {
		w := words[i].text
		switch {
		case strings.HasPrefix(w, "<") || isRedirection(w):
			return names, array
		case strings.HasPrefix(w, "-") && strings.HasSuffix(w, "a") && i+1 < len(words):
			return nil, words[i+1].text
		case len(w) == 2 && strings.Contains("-d-p-t-n-N-u-i", w):
			i++ // with a value of its own
		case !strings.HasPrefix(w, "-"):
			names = append(names, w)
		}
	}
	return names, array
}

// columns divides a row as read does: the last of n takes the rest, n < 0 is any
// number. The separator " " stands for white space, "" for none.
func columns(row, separator string, n int) []string {
	switch {
	case separator == "" || n == 1 && strings.TrimSpace(separator) == "":
		return []string{strings.TrimSpace(row)}
	case strings.TrimSpace(separator) != "":
		parts := strings.SplitN(strings.TrimSpace(row), separator[:1], n)
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		return parts
	}
	parts := strings.Fields(row)
	if n > 0 && len(parts) > n {
		parts = append(parts[:n-1], strings.Join(parts[n-1:], " "))
	}
	return parts
}

// input are the lines that a command, or the loop that it begins, reads: a text
// of the script, or a file that lies here.
func (s *scanner) input(p place, sh *shellReader, i int) []word {
	cmd := sh.out[i]
	if cmd.here != nil {
		return rowsOf(cmd.here.text, cmd.here.line, cmd.here.dynamic, "")
	}
	for j := i; cmd.piped && j > 0; j-- {
		before := sh.out[j-1]
		last := before.words[len(before.words)-1]
		switch program := path.Base(before.words[0].text); {
		case before.here != nil:
			return rowsOf(before.here.text, before.here.line, before.here.dynamic, "")
		case program == "echo" || program == "printf":
			return rowsOf(last.text, last.line-strings.Count(last.text, "\n"), last.dynamic, "")
		case !filters[program]:
			return nil
		case len(before.words) > 1 && !before.piped:
			return s.rowsOfFile(p, last.text)
		}
		cmd = before
	}
	for j, next := range sh.out[i:] {
		if name := inputFile(next.words); name != "" && (j == 0 || next.words[0].text == "done") {
			return s.rowsOfFile(p, name)
		}
		if next.words[0].text == "done" && next.here != nil {
			return rowsOf(next.here.text, next.here.line, next.here.dynamic, "")
		}
	}
	return nil
}

// inputFile is the file behind <.
func inputFile(words []word) string {
	for i, w := range words {
		if name, ok := strings.CutPrefix(w.text, "<"); ok && !strings.HasPrefix(name, "<") {
			if name == "" && i+1 < len(words) {
				return words[i+1].text
			}
			return name
		}
	}
	return ""
}

// rowsOf are the lines of a text that say something.
func rowsOf(text string, line int, dynamic bool, file string) (out []word) {
	for l := range strings.Lines(text) {
		if t := strings.TrimSpace(l); t != "" && t[0] != '#' {
			out = append(out, word{text: t, dynamic: dynamic && strings.Contains(t, "$"), line: line, file: file})
		}
		line++
	}
	return out
}

// rowsOfFile are the lines of a file that a script names: beside it, with a
// variable for the directory or none.
func (s *scanner) rowsOfFile(p place, name string) []word {
	name = leadingVariable.ReplaceAllString(name, "")
	if name == "" || path.IsAbs(name) || strings.Contains(name, "$") {
		return nil
	}
	for _, dir := range []string{path.Dir(p.file), "."} {
		file := path.Join(dir, name)
		if data, err := readLimited(s.rootfs(), file, maxScript); err == nil {
			return rowsOf(string(data), 1, false, file)
		}
	}
	return nil
}

var leadingVariable = regexp.MustCompile(`^\$(?:\{?[A-Za-z_][A-Za-z0-9_]*\}?|\([^()]*(?:\([^()]*\)[^()]*)*\))/`)

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
	if (operator == "%") == star && star || operator == "##" {
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

// maxPattern bounds the words that loops make of one.
const maxPattern = 1000

// each are the words that loops make of one that has their variables and more:
// acme/lab-$part:v1. There are none where a part is not known.
func (l scriptLoops) each(w word) []word {
	marks := shellVariable.FindAllStringSubmatch(w.text, -1)
	if !w.dynamic || len(marks) == 0 || marks[0][0] == w.text || strings.Contains(w.text, "$(") {
		return nil
	}
	out := []word{w}
	for len(out) > 0 && strings.Contains(out[0].text, "$") {
		m := shellVariable.FindStringSubmatch(out[0].text)
		if m == nil {
			return nil
		}
		b, next := l.at(m[1]+m[4], w.line), []word(nil)
		if b == nil {
			return nil
		}
		for i := range b.words {
			for _, o := range out {
				text, ok := l.turn(o.text, w.line, b.group, i)
				if !ok || len(next) >= maxPattern {
					return nil
				}
				next = append(next, word{text: text, line: w.line})
			}
		}
		out = next
	}
	return out
}

// turn puts the words of turn i of a loop into a text of a line.
func (l scriptLoops) turn(text string, line int, group string, i int) (string, bool) {
	known := true
	out := shellVariable.ReplaceAllStringFunc(text, func(mark string) string {
		m := shellVariable.FindStringSubmatch(mark)
		b := l.at(m[1]+m[4], line)
		if b == nil || b.group != group {
			return mark
		}
		if i >= len(b.words) || b.words[i].dynamic || b.words[i].text == "" || strings.Contains(b.words[i].text, "$") {
			known = false
			return ""
		}
		return b.words[i].text
	})
	return out, known
}

// taken marks the bindings of a text that a program pulls, each as a part of it.
func (l scriptLoops) taken(text string, line int) {
	for _, m := range shellVariable.FindAllStringSubmatch(text, -1) {
		for b := l.at(m[1]+m[4], line); b != nil; b = b.from {
			b.part = true
		}
	}
}
