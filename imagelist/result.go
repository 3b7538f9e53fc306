package imagelist

import (
	"cmp"
	"slices"

	"github.com/clusterimage/sealer/registry/ref"
)

// Confidence says how sure a finding is. A build mirrors an image or only lists
// it by its confidence.
type Confidence string

const (
	Certain   Confidence = "certain"   // a pod spec of a built-in kind, a list: mirrored
	High      Confidence = "high"      // a reference in a place made for images: mirrored
	Medium    Confidence = "medium"    // very likely an image: mirrored, and listed apart
	Low       Confidence = "low"       // perhaps an image: only listed
	Optional  Confidence = "optional"  // needs a switch that is off, a test, an upgrade: only listed
	Announced Confidence = "announced" // a chart's annotation names it, the rendering does not: only listed
)

// rank orders confidences, the surest first.
func (c Confidence) rank() int {
	return slices.Index([]Confidence{Certain, High, Medium, Low, Optional, Announced}, c)
}

// Mirrored reports whether a build mirrors an image found with c without being
// asked for optional images.
func (c Confidence) Mirrored() bool { return c == Certain || c == High || c == Medium }

// weaker returns the less sure of c and limit.
func (c Confidence) weaker(limit Confidence) Confidence {
	if limit != "" && limit.rank() > c.rank() {
		return limit
	}
	return c
}

// A Finding is one place that names an image, or, in Result.Rejected, a place
// that only looked so.
type Finding struct {
	// Reference is normalised. It is zero in a rejected finding that does not
	// parse.
	Reference ref.Reference
	// Source is where the image is mirrored from: Reference, unless a list
	// says NAME=SOURCE.
	Source ref.Reference
	// Written is the text as the file has it; of a reference that is split
	// over several fields, the text composed of them.
	Written string
	// File is a path in the rootfs, or the name of the list; of a template in
	// an archive "charts/x.tgz:x/templates/y.yaml". Line counts from 1; 0 when
	// it cannot be known.
	File string
	Line int
	// Rendered is the line in the rendering of a chart's template, 0 for all
	// else; Values is the path in the chart's values that the reference comes
	// from, where that can be told.
	Rendered int
	Values   string
	// Object is Kind/name, or Kind/namespace/name; Field the path in it.
	Object string
	Field  string
	// Rule names the rule of discovery; Confidence says how sure it is.
	Rule       string
	Confidence Confidence
	// Reason says why a finding was rejected, or why it is optional.
	Reason string
	// Credential is for the source's registry, from an image list with
	// authentication; nil otherwise. It is never printed.
	Credential *Credential `json:"-" yaml:"-"`
}

// A Credential is a user and password for one registry.
type Credential struct {
	Registry, Username, Password string
}

// String hides the password from every log.
func (c Credential) String() string { return c.Username + "@" + c.Registry }

// GoString hides the password from every log.
func (c Credential) GoString() string { return c.String() }

// A Result holds all that a scan found. Every list is sorted and equal for equal
// input.
type Result struct {
	Found    []Finding
	Rejected []Finding
	Gaps     []Gap // one for each cause, open ones first
	// Warnings are one line for each cause, with the files that they are about.
	Warnings []string
	// Charts are the charts that were read, in the order of their paths.
	Charts []Chart
	// Additions are what charts are to hold to be installed as they were
	// rendered, sorted by path.
	Additions []Addition
	// Files counts the files read, Documents the YAML and JSON documents in
	// them and in the renderings.
	Files, Documents int

	// PrivateRegistry is the private registry that was assumed.
	PrivateRegistry string
}

// A Chart is one chart that was read.
type Chart struct {
	Path        string // in the rootfs
	Name        string
	Version     string
	KubeVersion string // that it was rendered for
	Release     string // of the start command that installs it, "" when none does
	Namespace   string // of the release
	Error       string // why it did not render, "" when it did
}

// An Image is one image that a cluster will pull, with every place that asks
// for it.
type Image struct {
	Reference  ref.Reference
	Source     ref.Reference
	Confidence Confidence // the surest of the findings
	Credential *Credential
	Findings   []Finding
}

// Mirror returns the images that a build mirrors: those found with certain, high or
// medium confidence, with includeOptional all that were found, sorted by
// reference. References to the private registry are left out; see
// [Result.Requirements].
func (r *Result) Mirror(includeOptional bool) []Image {
	return r.group(func(f Finding, surest Confidence) bool {
		return !r.isPrivate(f) && (includeOptional || surest.Mirrored())
	})
}

// Requirements returns the references to the private registry itself. They
// have no source: the build must hold an image of that repository and tag.
func (r *Result) Requirements() []Image {
	return r.group(func(f Finding, surest Confidence) bool {
		return r.isPrivate(f) && surest.Mirrored()
	})
}

// Images returns every image found, sorted by reference.
func (r *Result) Images() []Image {
	return r.group(func(Finding, Confidence) bool { return true })
}

func (r *Result) isPrivate(f Finding) bool {
	return f.Source == f.Reference && r.PrivateRegistry != "" && f.Reference.Registry == r.PrivateRegistry
}

// group joins the findings of one reference whose surest passes keep.
func (r *Result) group(keep func(Finding, Confidence) bool) []Image {
	at := map[ref.Reference]int{}
	var out []Image
	for _, f := range r.Found {
		i, ok := at[f.Reference]
		if !ok {
			i = len(out)
			at[f.Reference] = i
			out = append(out, Image{Reference: f.Reference, Source: f.Source, Confidence: f.Confidence})
		}
		im := &out[i]
		im.Findings = append(im.Findings, f)
		if f.Confidence.rank() < im.Confidence.rank() {
			im.Confidence = f.Confidence
		}
		if f.Source != f.Reference {
			im.Source = f.Source // a list's NAME=SOURCE wins
		}
		if f.Credential != nil {
			im.Credential = f.Credential
		}
	}
	out = slices.DeleteFunc(out, func(im Image) bool {
		return !keep(Finding{Reference: im.Reference, Source: im.Source}, im.Confidence)
	})
	slices.SortFunc(out, func(a, b Image) int { return compareRefs(a.Reference, b.Reference) })
	return out
}

func compareRefs(a, b ref.Reference) int {
	return cmp.Or(cmp.Compare(a.Registry, b.Registry), cmp.Compare(a.Repository, b.Repository),
		cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Digest, b.Digest))
}

func compareFindings(a, b Finding) int {
	return cmp.Or(compareRefs(a.Reference, b.Reference), cmp.Compare(a.Confidence.rank(), b.Confidence.rank()),
		cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rendered, b.Rendered),
		cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Written, b.Written))
}

// sort puts every list of r in its order and drops repetitions.
func (r *Result) sort() {
	same := func(a, b Finding) bool { return compareFindings(a, b) == 0 }
	slices.SortStableFunc(r.Found, compareFindings)
	r.Found = slices.CompactFunc(r.Found, same)
	byPlace := func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rendered, b.Rendered), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Written, b.Written), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Object, b.Object))
	}
	slices.SortStableFunc(r.Rejected, byPlace)
	r.Rejected = slices.CompactFunc(r.Rejected, func(a, b Finding) bool { return byPlace(a, b) == 0 })
	r.Gaps = joinGaps(r.Gaps)
	slices.Sort(r.Warnings)
	r.Warnings = joinWarnings(slices.Compact(r.Warnings))
	slices.SortFunc(r.Additions, func(a, b Addition) int { return cmp.Compare(a.Path, b.Path) })
	slices.SortFunc(r.Charts, func(a, b Chart) int { return cmp.Compare(a.Path, b.Path) })
}
