package imagelist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Grade says whether a gap hides images for certain.
type Grade string

const (
	// Open marks a gap behind which images exist that the scan does not know:
	// the cluster will ask for them in vain.
	Open Grade = "open"
	// Doubtful marks a gap behind which there may be such images.
	Doubtful Grade = "doubtful"
)

// A Gap is one cause for which the images of a cluster may be incomplete: a
// place in the files whose images the scan cannot know.
type Gap struct {
	Grade Grade  `json:"grade"`
	Rule  string `json:"rule"` // stable name of the kind of cause
	// Subject names the cause in a "gap" line of .sealerimages. It has no white
	// space.
	Subject string `json:"subject"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // counts from 1; 0 when it cannot be known
	Object  string `json:"object,omitempty"`
	Field   string `json:"field,omitempty"`
	Text    string `json:"text,omitempty"` // the text at that place, "" when there is none
	Reason  string `json:"reason"`
	Remedy  string `json:"remedy,omitempty"` // closes the gap
	// Declared is the reason that .sealerimages gives for leaving the gap as it
	// is, "" when nobody declared it.
	Declared string `json:"declared,omitempty"`
	// More counts further places with the same cause.
	More int `json:"more,omitempty"`
}

// Blocks reports whether g keeps an image from being complete: it is open, and
// nobody declared it.
func (g Gap) Blocks() bool { return g.Grade == Open && g.Declared == "" }

// Place is file:line, or the file alone.
func (g Gap) Place() string {
	if g.Line > 0 {
		return fmt.Sprintf("%s:%d", g.File, g.Line)
	}
	return g.File
}

// String is one line: place, object and text, reason.
func (g Gap) String() string {
	var b strings.Builder
	b.WriteString(g.Place())
	for _, part := range []string{g.Object, g.Text, g.Reason} {
		if part != "" {
			b.WriteString(": " + part)
		}
	}
	if g.More > 0 {
		fmt.Fprintf(&b, " (and %d more)", g.More)
	}
	return b.String()
}

// A cause is a kind of gap: everything but the place.
type cause struct {
	grade  Grade
	rule   string
	reason string
	remedy string // with {subject} for the subject
}

const declare = `or declare it in ` + RulesFile + `: gap {subject} because REASON`

// The causes that several rules find. Those of one rule stand beside it.
var (
	placeholderGap = cause{Open, "placeholder", "a placeholder, to be replaced before the object is used",
		"put the image there, " + declare}
	wordGap = cause{Doubtful, "word", "a plain word where an image would stand",
		"write it with its tag if it is an image of Docker Hub, or add the image to manifests/imageList, " + declare}
	programTagGap = cause{Doubtful, "tag", "the program adds the tag", "write the tag, or add the image to manifests/imageList"}
	namespaceGap  = cause{Doubtful, "namespace", "", "add the images of that namespace to manifests/imageList"}
	elsewhereGap  = cause{Open, "elsewhere", "built from elsewhere; its images are not in these files",
		"put the files into the context, or add the images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}
)

// gap adds a gap at a spot of an object. A spot that is not pulled without a
// further switch has none.
func (s *scanner) gap(p place, at spot, c cause, subject string) {
	if p.limit == Optional {
		return
	}
	if p.rendered && strings.Contains(at.written, actionMark) {
		at.rule = "chart"
		s.reject(p, at, "a helper that is missing would render it") // the chart has the gap
		return
	}
	if p.embedded > 0 {
		// A document in a ConfigMap is the template of a program.
		at.rule = "embedded"
		s.reject(p, at, c.reason)
		return
	}
	if p.foreign && c.rule == placeholderGap.rule {
		c.grade = Doubtful // nothing of the cluster reads the file
	}
	written := at.written
	at.written = ""
	f := p.finding(at, Low)
	s.addGap(c, Gap{Subject: cmp.Or(subject, written), File: f.File, Line: f.Line, Object: f.Object, Field: f.Field, Text: shorten(unmark(written))})
	s.gapLines = append(s.gapLines, f.Rendered)
}

// addGap adds g, which says where, with the cause, which says why.
func (s *scanner) addGap(c cause, g Gap) {
	g.Subject = unmark(g.Subject)
	if g.Subject == "" || len(g.Subject) > 200 || strings.ContainsAny(g.Subject, " \t\r\n") {
		g.Subject = strings.Join(strings.Fields(g.File), "_")
	}
	g.Grade, g.Rule, g.Reason = c.grade, c.rule, cmp.Or(g.Reason, c.reason)
	if s.o.Strict {
		g.Grade = Open
	}
	g.Remedy = strings.ReplaceAll(cmp.Or(g.Remedy, c.remedy), "{subject}", g.Subject)
	s.res.Gaps = append(s.res.Gaps, g)
}

// A declaration is a gap line of .sealerimages.
type declaration struct {
	subject string // a pattern
	in      string // a pattern for the file, "" for all
	reason  string
	line    int
	used    bool
}

// declareGaps marks the gaps that .sealerimages declares, and those whose text
// the user ignores. A declaration that matches no gap is told, since it may
// hide the next one.
func (s *scanner) declareGaps() {
	for i := range s.res.Gaps {
		g := &s.res.Gaps[i]
		for j := range s.rules.declared {
			d := &s.rules.declared[j]
			if glob(d.subject, g.Subject) && (d.in == "" || glob(d.in, g.File)) {
				d.used = true
				g.Declared = cmp.Or(g.Declared, d.reason)
			}
		}
		for _, ig := range s.rules.ignores {
			if g.Text != "" && (ig.pattern == g.Text || strings.Contains(ig.pattern, "*") && glob(ig.pattern, g.Text)) {
				g.Declared = cmp.Or(g.Declared, "ignored by "+ig.from)
			}
		}
	}
	for _, d := range s.rules.declared {
		if !d.used {
			s.warn("%s:%d: declares the gap %s, which is not there", RulesFile, d.line, d.subject)
		}
	}
}

// joinGaps makes one gap of all that have the same cause, at the first place,
// and sorts them: open ones first, then by place.
func joinGaps(gaps []Gap) []Gap {
	slices.SortStableFunc(gaps, func(a, b Gap) int {
		return cmp.Or(strings.Compare(string(b.Grade), string(a.Grade)), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Reason, b.Reason))
	})
	type key struct{ rule, subject, reason, declared string }
	at := map[key]int{}
	var out []Gap
	for i, g := range gaps {
		if i > 0 && g == gaps[i-1] {
			continue // the same place, found twice
		}
		k := key{g.Rule, g.Subject, g.Reason, g.Declared}
		if j, ok := at[k]; ok {
			out[j].More += 1 + g.More
			continue
		}
		at[k] = len(out)
		out = append(out, g)
	}
	return out
}

// tagGaps makes a doubtful gap of each repository in a program's settings to
// which the program adds the tag, and which nothing else names with one.
func (s *scanner) tagGaps() {
	names := map[string]bool{}
	for _, f := range s.res.Found {
		names[f.Reference.Name()] = true
	}
	for _, f := range s.res.Rejected {
		if isSetting(f.Rule) && strings.HasPrefix(f.Reason, repositoryReason) && f.Reference.Repository != "" && !names[f.Reference.Name()] && f.Confidence.rank() <= Low.rank() {
			s.addGap(programTagGap, Gap{Subject: f.Written, File: f.File, Line: cmp.Or(f.Line, f.Rendered), Object: f.Object, Field: f.Field, Text: f.Written})
		}
	}
}

var lowGap = cause{Doubtful, "low", "perhaps an image, which is listed and not mirrored",
	"decide in " + RulesFile + ": include {subject} or ignore {subject}"}

// lowGaps makes a doubtful gap of each image that was found with low
// confidence alone. The strings in the values of a chart that does not render
// have that chart's gap.
func (s *scanner) lowGaps() {
	for _, im := range s.res.Images() {
		f := im.Findings[0]
		if im.Confidence == Low && !strings.HasPrefix(f.Rule, "values-") {
			s.addGap(lowGap, Gap{Subject: f.Written, File: f.File, Line: f.Line, Object: f.Object, Field: f.Field, Text: f.Written})
		}
	}
}
