package imagelist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGapBlocks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gap    Gap
		blocks bool
		text   string
	}{
		{Gap{Grade: Open, File: "a", Line: 3, Object: "Pod/b", Text: "c", Reason: "why"}, true, "a:3: Pod/b: c: why"},
		{Gap{Grade: Open, File: "a", Declared: "known"}, false, "a"},
		{Gap{Grade: Doubtful, File: "a", More: 1}, false, "a (and 1 more)"},
	} {
		if got := tc.gap.Blocks(); got != tc.blocks {
			t.Errorf("%+v: Blocks = %t", tc.gap, got)
		}
		if got := tc.gap.String(); !strings.HasSuffix(got, tc.text) {
			t.Errorf("%q does not end in %q", got, tc.text)
		}
	}
}

// TestJoinGaps makes one gap of those with one cause, and counts a place that was
// found twice once.
func TestJoinGaps(t *testing.T) {
	t.Parallel()
	gap := func(g Grade, subject, file string, more int) Gap {
		return Gap{Grade: g, Subject: subject, File: file, More: more}
	}
	var got []string
	for _, g := range joinGaps([]Gap{gap(Doubtful, "x", "a", 0), gap(Open, "y", "c", 2), gap(Open, "y", "b", 1), gap(Open, "y", "b", 1), gap(Open, "z", "b", 0)}) {
		got = append(got, fmt.Sprintf("%s %s %s %d", g.Grade, g.Subject, g.File, g.More))
	}
	if diff := cmp.Diff([]string{"open y b 4", "open z b 0", "doubtful x a 0"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestGapSubjects names a gap after its file where a line of rules could not name
// it otherwise, and declares it.
func TestGapSubjects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 200)
	s := newScanner(t.Context(), Options{Rules: []byte("gap " + long + " because it is known\ngap d* in other because elsewhere\nignore text-*\nignore whole\n")})
	s.res = &Result{}
	s.rules = s.parseRules(s.o.Rules)
	for _, g := range []Gap{{Subject: long}, {Subject: long + "a"}, {Subject: "two words"}, {}, {Subject: "d1"}, {Subject: "d2", File: "other"},
		{Subject: "e", Text: "text-1"}, {Subject: "f", Text: "whole"}, {Subject: "g", Text: "whole text"}} {
		if g.File == "" {
			g.File = "my file"
		}
		s.addGap(cause{grade: Open}, g)
	}
	s.declareGaps()
	var got []string
	for _, g := range s.res.Gaps {
		got = append(got, strings.Replace(g.Subject, long, "LONG", 1)+": "+g.Declared)
	}
	want := []string{"LONG: it is known", "my_file: ", "my_file: ", "my_file: ", "d1: ", "d2: elsewhere", "e: ignored by .sealerimages:3", "f: ignored by .sealerimages:4", "g: "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
