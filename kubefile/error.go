package kubefile

import (
	"errors"
	"fmt"
	"strings"
)

// ErrUnset is wrapped by the fault of a word with an unset variable. The fault
// may go away once the base is known, because the base can set the variable.
var ErrUnset = errors.New("a variable is not set")

// An Error is one fault of a Kubefile. Errors of one file are joined with
// Join, in line order.
type Error struct {
	File        string // the Kubefile's name
	Line        int    // from 1; 0 when the fault has no line
	Instruction string // "COPY"; "" when the fault is in no instruction
	Msg         string // the fault
	Fix         string // the way out; may be empty
	Err         error  // the cause, if another part of the program found the fault
}

// Error returns "Kubefile:LINE: instruction: message: fix".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	for _, part := range []string{e.Instruction, e.Msg, e.Fix} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxFaults is the most faults that Join tells: a file that is no Kubefile has one
// in each line.
const maxFaults = 100

// Join returns the first 100 of errs as one error, in their order, and the number
// of the others; nil if there is none.
func Join(errs []*Error) error {
	var joined []error
	for i, e := range errs {
		if i == maxFaults {
			joined = append(joined, &Error{File: e.File, Msg: fmt.Sprintf("%d more faults", len(errs)-i), Fix: "correct these first"})
			break
		}
		joined = append(joined, e)
	}
	return errors.Join(joined...)
}

// Suggest returns the candidate that a misspelt word most likely means, or "".
func Suggest(word string, candidates []string) string {
	best, distance := "", min(max(1, len(word)/3), len(word)-1)
	for _, c := range candidates {
		d := editDistance(strings.ToLower(word), strings.ToLower(c))
		if d < distance || d == distance && (best == "" || len(c) == len(word)) {
			best, distance = c, d
		}
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of
// neighbours (optimal string alignment).
func editDistance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			replace := prev[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
