package spec

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Fault is one thing that is wrong, or to be said, about a Clusterfile.
// Faults of one file are joined with errors.Join, in line order.
type Fault struct {
	File string // the Clusterfile's name
	Line int    // from 1; 0 when the fault has no line
	Msg  string
	Fix  string // the way out for the user; may be empty
}

// Error returns "Clusterfile:LINE: message: fix".
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": " + f.Msg)
	if f.Fix != "" {
		b.WriteString(": " + f.Fix)
	}
	return b.String()
}

// A place is where something of a File was written.
type place struct {
	file string
	line int
}

// faults collects the faults of one file.
type faults struct {
	file string
	list []*Fault
}

func (f *faults) add(line int, fix, format string, args ...any) {
	f.list = append(f.list, &Fault{File: f.file, Line: line, Msg: fmt.Sprintf(format, args...), Fix: fix})
}

// join returns all faults in line order, or nil.
func (f *faults) join() error {
	slices.SortStableFunc(f.list, func(a, b *Fault) int { return cmp.Compare(a.Line, b.Line) })
	errs := make([]error, len(f.list))
	for i, e := range f.list {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// didYouMean names the candidate nearest to word, or all of them.
func didYouMean(word string, candidates []string) string {
	if n := nearest(word, candidates); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return "known are " + strings.Join(candidates, ", ")
}

// nearest returns the candidate with the fewest edits to word, or "" when more
// than a third of the letters differ.
func nearest(word string, candidates []string) string {
	best, limit := "", max(2, len(word)/3)
	for _, c := range candidates {
		if d := edits(strings.ToLower(word), strings.ToLower(c), limit); d < limit || d == limit && best == "" {
			best, limit = c, d
		}
	}
	return best
}

// edits is the Levenshtein distance of a and b, or limit+1 when it is larger.
func edits(a, b string, limit int) int {
	if len(a) > len(b)+limit || len(b) > len(a)+limit {
		return limit + 1
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
