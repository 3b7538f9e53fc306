package imagelist

import (
	"fmt"
	"slices"
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
		case name == "read" && cmd.here != nil && !cmd.here.dynamic:
			if _, array := readNames(cmd.words[1:]); array != "" { // for a loop behind it
				s.readLoop(p, sh, i, arrays, l)
			}
		case name == "for" && len(cmd.words) > 3 && cmd.words[2].text == "in":
			s.forLoop(p, cmd, arrays, l)
		}
	}
	for i, cmd := range sh.out {
		if cmd.words[0].text != "read" {
			continue
		}
		if _, array := readNames(cmd.words[1:]); array == "" || cmd.here == nil || cmd.here.dynamic {
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
