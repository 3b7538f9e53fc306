package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/ref"
)

// scanResult is the output of scan as JSON and YAML.
type scanResult struct {
	Images       []scannedImage  `json:"images"`
	Requirements []scannedImage  `json:"requirements,omitempty"` // in the private registry itself
	Gaps         []imagelist.Gap `json:"gaps,omitempty"`
	Rejected     []scanPlace     `json:"rejected,omitempty"` // with --rejected
	Warnings     []string        `json:"warnings,omitempty"`
	Charts       []scannedChart  `json:"charts,omitempty"`
}

type scannedImage struct {
	Reference  string      `json:"reference"`
	Source     string      `json:"source,omitempty"` // the reference to mirror from, if it is another
	Confidence string      `json:"confidence"`
	Mirrored   bool        `json:"mirrored"` // by a build with the same options
	Found      []scanPlace `json:"found"`
}

type scanPlace struct {
	Written    string `json:"written"`
	File       string `json:"file"`
	Line       int    `json:"line,omitempty"`     // in that file; of a chart, in the template
	Rendered   int    `json:"rendered,omitempty"` // line in the rendering of a chart's template
	Values     string `json:"values,omitempty"`   // path in the chart's values
	Object     string `json:"object,omitempty"`
	Field      string `json:"field,omitempty"`
	Rule       string `json:"rule"`
	Confidence string `json:"confidence,omitempty"`
	Reason     string `json:"reason,omitempty"`
}

type scannedChart struct {
	Path        string `json:"path"`
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	KubeVersion string `json:"kubeVersion,omitempty"`
	Release     string `json:"release,omitempty"` // of the start command that installs it
	Namespace   string `json:"namespace,omitempty"`
	Error       string `json:"error,omitempty"`
}

func (a *app) printScan(f *scanFlags, found *imagelist.Result, why ref.Reference) error {
	if why != (ref.Reference{}) {
		return a.printWhy(found, why)
	}
	v := newScanResult(found, f.options.IncludeOptional, f.rejected)
	err := f.output.print(a.Out, v, func(w io.Writer) error {
		switch {
		case f.output.kind == "imageList":
			return printImageList(w, found.Mirror(f.options.IncludeOptional))
		case f.rejected:
			return printRejected(w, v.Rejected)
		}
		return printFound(w, v, f.output.kind == "wide")
	}, anys(v.Images)...)
	if err == nil && slices.Contains([]string{"table", "wide", "imageList"}, f.output.kind) {
		a.remark(v)
	}
	return err
}

func newScanResult(found *imagelist.Result, includeOptional, rejected bool) scanResult {
	mirrored := map[ref.Reference]bool{}
	for _, im := range found.Mirror(includeOptional) {
		mirrored[im.Reference] = true
	}
	v := scanResult{Images: []scannedImage{}, Warnings: found.Warnings, Gaps: found.Gaps}
	for _, im := range found.Images() {
		v.Images = append(v.Images, newScanned(im, mirrored[im.Reference]))
	}
	for _, im := range found.Requirements() {
		v.Requirements = append(v.Requirements, newScanned(im, false))
	}
	if rejected {
		for _, r := range found.Rejected {
			v.Rejected = append(v.Rejected, newPlace(r))
		}
	}
	for _, c := range found.Charts {
		v.Charts = append(v.Charts, scannedChart(c))
	}
	return v
}

func newScanned(im imagelist.Image, mirrored bool) scannedImage {
	s := scannedImage{Reference: im.Reference.String(), Confidence: string(im.Confidence), Mirrored: mirrored}
	if im.Source != im.Reference {
		s.Source = im.Source.String()
	}
	for _, f := range im.Findings {
		s.Found = append(s.Found, newPlace(f))
	}
	return s
}

func newPlace(f imagelist.Finding) scanPlace {
	return scanPlace{Written: f.Written, File: f.File, Line: f.Line, Rendered: f.Rendered, Values: f.Values, Object: f.Object,
		Field: f.Field, Rule: f.Rule, Confidence: string(f.Confidence), Reason: f.Reason}
}

// printImageList prints the images that a build would mirror, as an imageList.
func printImageList(w io.Writer, images []imagelist.Image) error {
	for _, im := range images {
		line := im.Reference.String()
		if im.Source != im.Reference {
			line += "=" + im.Source.String()
		}
		if _, err := printLine(w, line); err != nil {
			return err
		}
	}
	return nil
}

// printFound prints a line for each image, with the first place that asks; wide
// also how sure that is, the object and the rule.
func printFound(w io.Writer, v scanResult, wide bool) error {
	header := []string{"IMAGE", "FOUND AT"}
	if wide {
		header = []string{"IMAGE", "CONFIDENCE", "FOUND AT", "OBJECT", "RULE"}
	}
	var rows [][]string
	for _, im := range v.Images {
		p := im.Found[0]
		at := p.at()
		if n := len(im.Found); n > 1 {
			at += fmt.Sprintf(" (+%d)", n-1)
		}
		if !im.Mirrored && !wide {
			at += " (only listed)"
		}
		row := []string{im.Reference, at}
		if wide {
			row = []string{im.Reference, im.Confidence, at, p.Object, p.Rule}
		}
		rows = append(rows, row)
	}
	return table(w, header, rows)
}

func printRejected(w io.Writer, list []scanPlace) error {
	var rows [][]string
	for _, p := range list {
		rows = append(rows, []string{p.Written, p.at(), cmp.Or(p.Field, p.Object), p.Reason})
	}
	return table(w, []string{"TEXT", "FOUND AT", "FIELD", "REASON"}, rows)
}

// at returns file:line. If the line in the template of a chart is unknown, it is
// the line in the rendering.
func (p scanPlace) at() string {
	switch {
	case p.Line > 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.Rendered > 0:
		return fmt.Sprintf("%s (line %d rendered)", p.File, p.Rendered)
	}
	return p.File
}

// remark prints on stderr the facts that a list of images does not show.
func (a *app) remark(v scanResult) {
	open := 0
	for _, g := range v.Gaps {
		switch {
		case g.Declared != "":
			printf(a.Err, "Gap (declared): %s: %s\n", g, g.Declared)
		default:
			printf(a.Err, "Gap (%s): %s; %s\n", g.Grade, g, g.Remedy)
		}
		if g.Blocks() {
			open++
		}
	}
	for _, w := range v.Warnings {
		printf(a.Err, "Warning: %s\n", w)
	}
	mirrored := 0
	for _, im := range v.Images {
		if im.Mirrored {
			mirrored++
		}
	}
	printf(a.Err, "%s, %d more listed, %s, %d of them open\n", counted(mirrored, "image that a build mirrors", "images that a build mirrors"),
		len(v.Images)-mirrored-len(v.Requirements), counted(len(v.Gaps), "gap", "gaps"), open)
	for _, r := range v.Requirements {
		printf(a.Err, "Must be in the image under its own name: %s\n", r.Reference)
	}
}

// alike returns the reference found that the user may mean by r: another tag of
// its repository, or a similar name.
func alike(found *imagelist.Result, r ref.Reference) string {
	var all []string
	for _, list := range [][]imagelist.Finding{found.Found, found.Rejected} {
		for _, f := range list {
			if f.Reference.Name() == r.Name() {
				return f.Reference.Familiar()
			}
			all = append(all, f.Reference.Familiar())
		}
	}
	return kubefile.Suggest(r.Familiar(), all)
}

// printWhy explains one reference: every place that names it, found or
// rejected.
func (a *app) printWhy(found *imagelist.Result, why ref.Reference) error {
	var places []scanPlace
	for _, list := range [][]imagelist.Finding{found.Found, found.Rejected} {
		for _, f := range list {
			if f.Reference == why || f.Source == why {
				places = append(places, newPlace(f))
			}
		}
	}
	if like := alike(found, why); len(places) == 0 && like != "" {
		return advise(fmt.Errorf("%s: nothing names it", why), "Did you mean: sealer scan --why "+like)
	}
	if len(places) == 0 {
		return advise(fmt.Errorf("%s: nothing names it", why), "See what was found with sealer scan, and what was dropped with sealer scan --rejected")
	}
	printLine(a.Out, why)
	for _, p := range places {
		printf(a.Out, "  %s\n", p.at())
		rows := [][2]string{{"object", p.Object}, {"field", p.Field}, {"values", p.Values}, {"written", p.Written}, {"rule", p.Rule}, {"confidence", p.Confidence}, {"reason", p.Reason}}
		for _, r := range rows {
			if r[1] != "" {
				printf(a.Out, "    %-11s %s\n", r[0], r[1])
			}
		}
	}
	return nil
}
