package imagelist

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

var brokenTemplate = regexp.MustCompile(`^parse error at \([^():]+:(\d+)\)`)

var failedTemplate = regexp.MustCompile(`(?:parse error at|execution error at|error converting YAML[^(]*|template:|at) ?\(?([^\s():<>]+/templates/[^\s():<>]+)`)

// salvage reads a chart that does not render: first as far as it goes when
// missing values are taken as empty, leaving out templates that fail even
// so; then the images that its values spell out.
func (s *scanner) salvage(c *source, vals map[string]any, caps *chartutil.Capabilities, cause error) error {
	out, lax := s.renderLax(c, vals, caps)
	s.rendering(c, out, place{limit: Medium})
	s.unrendered(c, lax, cause)
	limit := Low
	if !lax.complete() {
		limit = Medium
	}
	s.salvageValues(c, limit)
	return s.ctx.Err()
}

type droppedTemplate struct {
	name string
	err  error
}

// failed reports a template that renders with no values: one that is broken is
// a fault, one that needs a value that is not there a gap.
func (s *scanner) failed(c *source, d droppedTemplate) {
	file := c.path
	if d.name != "" {
		file = c.templateFile(d.name)
	}
	if m := brokenTemplate.FindStringSubmatch(d.err.Error()); m != nil || errors.Is(d.err, errRunaway) || strings.Contains(d.err.Error(), "nested reference name") {
		f := fault{file: file, err: errors.New(firstLine(d.err))}
		if m != nil {
			f.line, _ = strconv.Atoi(m[1])
			f.text = lineOf([]byte(c.templates[d.name].text), f.line)
		}
		s.fault(f)
		return
	}
	s.addGap(chartGap, Gap{File: file, Object: c.chart.Name(), Reason: "the template does not render: " + firstLine(d.err)})
}

// renderLax renders a chart with missing values taken as empty, helpers of
// dependencies that are missing too, and without the templates that fail even
// so.
func (s *scanner) renderLax(c *source, vals map[string]any, caps *chartutil.Capabilities) (map[string]string, *salvager) {
	lax := &salvager{without: map[string]bool{}}
	for range 30 {
		ch, err := loader.LoadFiles(c.files)
		if err != nil {
			lax.drop("", err)
			return nil, lax
		}
		out, err := s.render(ch, vals, caps, lax)
		if err == nil {
			return out, lax
		}
		m := failedTemplate.FindStringSubmatch(err.Error())
		if m == nil || s.ctx.Err() != nil || errors.Is(err, errRunaway) || lax.without[m[1]] {
			lax.drop("", err)
			return nil, lax
		}
		lax.drop(m[1], err)
	}
	return nil, lax
}

// A salvager records the templates and helpers to leave out so that the rest of a
// failing chart renders.
type salvager struct {
	without map[string]bool // templates that fail, by the engine's name
	dropped []droppedTemplate
	missing []string // names of helpers that no template defines
}

func (l *salvager) drop(name string, err error) {
	l.without[name] = true
	l.dropped = append(l.dropped, droppedTemplate{name, err})
}

// complete reports whether all of the chart was rendered.
func (l *salvager) complete() bool { return len(l.dropped)+len(l.missing) == 0 }

var (
	usedHelper    = regexp.MustCompile(`\b(?:include|template)\s+"([^"]+)"`)
	definedHelper = regexp.MustCompile(`\b(?:define|block)\s+"([^"]+)"`)
)

// prepare changes a chart whose dependencies are processed: the templates that
// fail go, helpers that are not there become empty.
func (l *salvager) prepare(root *chart.Chart) {
	used, defined := map[string]bool{}, map[string]bool{}
	var walk func(ch *chart.Chart)
	walk = func(ch *chart.Chart) {
		ch.Templates = slices.DeleteFunc(ch.Templates, func(t *chart.File) bool {
			return l.without[path.Join(ch.ChartFullPath(), t.Name)]
		})
		for _, t := range ch.Templates {
			for _, m := range usedHelper.FindAllSubmatch(t.Data, -1) {
				used[string(m[1])] = true
			}
			for _, m := range definedHelper.FindAllSubmatch(t.Data, -1) {
				defined[string(m[1])] = true
			}
		}
		for _, d := range ch.Dependencies() {
			walk(d)
		}
	}
	walk(root)
	l.missing = nil
	var stubs strings.Builder
	for _, name := range slices.Sorted(maps.Keys(used)) {
		if !defined[name] && !strings.Contains(name, "/templates/") { // .Template.BasePath names whole files
			l.missing = append(l.missing, name)
			fmt.Fprintf(&stubs, "{{- define %q }}{{ end }}\n", name)
		}
	}
	if len(l.missing) > 0 {
		markImages(root, l.missing)
		root.Templates = append(root.Templates, &chart.File{Name: "templates/_missing.tpl", Data: []byte(stubs.String())})
	}
}

// markImages puts a mark where lines of images call helpers that are missing, so
// that the rest of the line is not taken for the image.
func markImages(ch *chart.Chart, missing []string) {
	for _, t := range ch.Templates {
		if !bytes.Contains(t.Data, []byte("image")) {
			continue
		}
		lines := strings.SplitAfter(string(t.Data), "\n")
		for i, l := range lines {
			if key, _, ok := strings.Cut(l, ":"); ok && isImageKey(strings.Trim(key, " \t-\"'")) {
				lines[i] = action.ReplaceAllStringFunc(l, func(a string) string {
					if m := usedHelper.FindStringSubmatch(a); m != nil && slices.Contains(missing, m[1]) {
						return actionMark
					}
					return a
				})
			}
		}
		t.Data = []byte(strings.Join(lines, ""))
	}
	for _, d := range ch.Dependencies() {
		markImages(d, missing)
	}
}

var endlessInclude = regexp.MustCompile(`nested reference name: [^:\s]+`)

// firstLine makes a reason of an error of Helm, whose engine repeats itself
// for every template on the way.
func firstLine(err error) string {
	text := err.Error()
	if m := endlessInclude.FindString(text); m != "" {
		return "the template includes itself without end: " + m
	}
	if schema := (schemaError{}); errors.As(err, &schema) {
		return text
	}
	l, _, _ := strings.Cut(text, "\n")
	if len(l) > 300 {
		l = l[:297] + "..."
	}
	return strings.ToValidUTF8(l, "")
}

var chartGap = cause{Open, "chart", "", "set what the chart asks for (charts/NAME.values.yaml, --set, helm dependency build), " + declare}

// unrendered tells why a chart does not render, each cause once. The gap
// of a missing dependency tells the failures that follow from it, too. Where every template
// renders with missing values taken as empty, the cause is Helm's; otherwise
// each template that fails has its own.
func (s *scanner) unrendered(c *source, lax *salvager, cause error) {
	told := map[string]bool{}
	for _, d := range lax.dropped {
		if root := rootCause(d.err); !told[root] {
			told[root] = true
			s.failed(c, d)
		}
	}
	if len(lax.dropped) == 0 && !(len(lax.missing) > 0 && s.lacksDependency(c)) {
		s.addGap(chartGap, Gap{Subject: c.path, File: c.path, Object: c.chart.Name(),
			Reason: "the chart does not render, so that images may be missing: " + firstLine(cause)})
	}
}

// lacksDependency reports whether a gap of the chart's dependencies was told.
func (s *scanner) lacksDependency(c *source) bool {
	return slices.ContainsFunc(s.res.Gaps, func(g Gap) bool {
		return g.Rule == dependencyGap.rule && g.File == c.file(chartutil.ChartfileName)
	})
}

var engineAt = regexp.MustCompile(`^.*(?:\): |>: |:\d+: )`)

// rootCause is the end of an error of the engine, without the templates on the
// way to it.
func rootCause(err error) string { return engineAt.ReplaceAllString(firstLine(err), "") }
