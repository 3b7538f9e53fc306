package imagelist

import (
	"path"
	"regexp"
	"strings"
)

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
	if cmd.piped && i > 0 {
		return s.output(p, sh, i-1)
	}
	if cmd.words[len(cmd.words)-1].text == "<" && i+1 < len(sh.out) && sh.out[i+1].line == cmd.line { // < <(COMMAND | …)
		for i++; i+1 < len(sh.out) && sh.out[i+1].piped; i++ {
		}
		return s.output(p, sh, i)
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

// output are the lines that a command writes, as far as it writes a text or a file
// on, whole or a column of it.
func (s *scanner) output(p place, sh *shellReader, i int) []word {
	cmd := sh.out[i]
	last := cmd.words[len(cmd.words)-1]
	var rows []word
	switch program := path.Base(cmd.words[0].text); {
	case cmd.here != nil:
		rows = rowsOf(cmd.here.text, cmd.here.line, cmd.here.dynamic, "")
	case program == "echo":
		return rowsOf(echoed(cmd.words[1:]))
	case program == "printf":
		return rowsOf(last.text, last.line-strings.Count(last.text, "\n"), last.dynamic, "")
	case !filters[program]:
		return nil
	case cmd.piped && i > 0:
		rows = s.output(p, sh, i-1)
	case len(cmd.words) > 1:
		rows = s.rowsOfFile(p, last.text)
	}
	return cutRows(cmd, rows)
}

// echoed is what echo writes of its words, as rowsOf takes it.
func echoed(words []word) (text string, line int, dynamic bool, file string) {
	for len(words) > 0 && strings.HasPrefix(words[0].text, "-") {
		words = words[1:]
	}
	for i, w := range words {
		if i > 0 {
			text += " "
		}
		text += w.text
		line, dynamic = w.line, dynamic || w.dynamic
	}
	return text, line - strings.Count(text, "\n"), dynamic, ""
}

// cutRows are the columns that cut or awk write of rows; all of each for another
// program, none where the words of awk are not read.
func cutRows(cmd shellCommand, rows []word) []word {
	program := path.Base(cmd.words[0].text)
	if program != "cut" && program != "awk" {
		return rows
	}
	cut := fieldCutter(shellCommand{words: cmd.words[1:]}.String())
	if cut == nil {
		return nil
	}
	out := rows[:0:0]
	for _, r := range rows {
		text, ok := cut(r.text)
		if !ok || text == "" {
			continue
		}
		r.text = text
		out = append(out, r)
	}
	return out
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

// catFile is the content of a file: $(cat NAME), $(grep -v '^#' NAME), $(<NAME).
var catFile = regexp.MustCompile(`^\$\((?:cat\s+|grep\s+-v\s+\S+\s+|<\s*)"?([^\s"|;&()]+)"?\s*\)$`)
