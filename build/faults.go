package build

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/kubefile"
)

// faultList is the error of several independent faults of an input. The text has
// a line for each.
type faultList []error

// Error implements error.
func (f faultList) Error() string {
	lines := make([]string, len(f))
	for i, err := range f {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As look at each fault.
func (f faultList) Unwrap() []error { return f }

// Faults returns the single faults of an error of Build or Check, in order,
// also from lists that other packages made with errors.Join. nil has none.
func Faults(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok || !isList(err):
		return []error{err} // fmt.Errorf with several %w is one fault
	}
	var out []error
	for _, e := range many.Unwrap() {
		out = append(out, Faults(e)...)
	}
	return out
}

// isList reports whether err is a list and nothing else.
func isList(err error) bool {
	_, ok := err.(faultList)
	return ok || reflect.TypeOf(err) == reflect.TypeOf(errors.Join(err))
}

// joinFaults returns the faults of errs as one error, nil if there is none.
func joinFaults(errs ...error) error {
	var out faultList
	for _, err := range errs {
		out = append(out, Faults(err)...)
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return out[0]
	}
	return out
}

// unique joins the faults of errs in the order of their lines. A fault that
// several platforms have is reported once.
func unique(errs []error) error {
	seen := map[string]bool{}
	var out faultList
	for _, e := range Faults(joinFaults(errs...)) {
		if !seen[e.Error()] {
			seen[e.Error()] = true
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return joinFaults(out...)
}

// lineOf returns the line of the Kubefile that err is about, or 0.
func lineOf(err error) int {
	var e *kubefile.Error
	if errors.As(err, &e) {
		return e.Line
	}
	return 0
}

// incomplete makes ErrIncomplete of each fault of err.
func incomplete(err error) error {
	var out faultList
	for _, e := range Faults(err) {
		out = append(out, incompleteError{e})
	}
	return joinFaults(out...)
}
