package imagelist

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// A fault is one error of the input.
type fault struct {
	file string
	line int
	text string
	err  error
	hard bool // not turned into a warning by Lenient
}

func (f fault) Error() string {
	at := f.file
	if f.line > 0 {
		at = fmt.Sprintf("%s:%d", at, f.line)
	}
	if f.text == "" {
		return fmt.Sprintf("%s: %v", at, f.err)
	}
	return fmt.Sprintf("%s: %q: %v", at, shorten(ref.Redact(f.text)), f.err)
}

func (f fault) Unwrap() error { return f.err }

var faultGap = cause{Open, "fault", "", "correct the file, " + declare}

func (s *scanner) fault(f fault) {
	if !f.hard && s.o.Lenient {
		s.addGap(faultGap, Gap{Subject: f.file, File: f.file, Line: f.line, Text: shorten(ref.Redact(f.text)), Reason: f.err.Error()})
		return
	}
	s.faults = append(s.faults, f)
}

func (s *scanner) warn(format string, args ...any) {
	s.res.Warnings = append(s.res.Warnings, fmt.Sprintf(format, args...))
}

// maxNamed bounds the files that a warning names beside the first.
const maxNamed = 3

// joinWarnings makes one line of the warnings that say the same of several files,
// which are sorted.
func joinWarnings(list []string) (out []string) {
	more := map[string][]string{} // text to the files
	for _, w := range list {
		file, text, ok := strings.Cut(w, ": ")
		if !ok {
			text = w
		}
		if more[text] = append(more[text], file); len(more[text]) == 1 {
			out = append(out, w)
		}
	}
	for i, w := range out {
		_, text, _ := strings.Cut(w, ": ")
		if files := more[text]; len(files) > 1 {
			n, dots := len(files)-1, ""
			files = files[1:]
			if n > maxNamed {
				files, dots = files[:maxNamed], ", …"
			}
			out[i] = fmt.Sprintf("%s (and %d more: %s%s)", w, n, strings.Join(files, ", "), dots)
		}
	}
	return out
}

func (s *scanner) err() error {
	slices.SortStableFunc(s.faults, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line))
	})
	errs := make([]error, 0, len(s.faults))
	for i, f := range s.faults {
		if i > 0 && f.Error() == s.faults[i-1].Error() {
			continue
		}
		errs = append(errs, f)
	}
	if more := len(errs) - maxFaults; more > 0 {
		errs = append(errs[:maxFaults], fmt.Errorf("and %d more faults", more))
	}
	return errors.Join(errs...)
}
