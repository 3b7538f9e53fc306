package imagelist

import (
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

var (
	dependencyGap = cause{Open, "dependency", "a declared dependency that is missing from charts/: its images are unknown", ""}
	// innerGap is of a dependency of a dependency: helm checks the chart's own alone.
	innerGap = cause{Doubtful, "dependency", "a dependency declares it, and it is not inside: helm installs the chart without it, and its images are unknown", ""}
)

// missingDependencies names the dependencies that Chart.yaml declares and the
// chart does not carry, and those of the charts in it. Helm refuses a chart
// without its own; the images of the dependency cannot be known.
func (s *scanner) missingDependencies(c *source, vals map[string]any) {
	if !lacksAny(c.chart) {
		return // nearly all, and the values are large
	}
	all, err := chartutil.CoalesceValues(c.chart, vals)
	if err == nil {
		s.missingIn(c, c.chart, "", all)
	}
}

// lacksAny reports whether ch, or a chart in it, lacks a dependency.
func lacksAny(ch *chart.Chart) bool {
	return slices.ContainsFunc(ch.Metadata.Dependencies, func(d *chart.Dependency) bool { return d != nil && !carries(ch, d) }) ||
		slices.ContainsFunc(ch.Dependencies(), lacksAny)
}

func carries(ch *chart.Chart, d *chart.Dependency) bool {
	return slices.ContainsFunc(ch.Dependencies(), func(in *chart.Chart) bool { return in.Name() == d.Name })
}

// missingIn names those of ch, which lies at the path at of c and is rendered with
// vals.
func (s *scanner) missingIn(c *source, ch *chart.Chart, at string, vals chartutil.Values) {
	off := map[string]bool{}
	name := map[string]string{} // of the values
	for _, d := range ch.Metadata.Dependencies {
		if d == nil {
			continue
		}
		off[d.Name] = conditionOff(d.Condition, vals)
		name[d.Name] = d.Alias
		if !carries(ch, d) {
			s.missing(c, d, at, off[d.Name])
		}
	}
	for _, d := range ch.Dependencies() {
		if off[d.Name()] {
			continue
		}
		key := d.Name()
		if name[key] != "" {
			key = name[key]
		}
		inner, err := vals.Table(key)
		if err != nil {
			inner = chartutil.Values{}
		}
		s.missingIn(c, d, path.Join(at, "charts", d.Name()), inner)
	}
}

// missing tells of one dependency of the chart at the path at of c.
func (s *scanner) missing(c *source, d *chart.Dependency, at string, off bool) {
	if off {
		s.warn("%s: the dependency %s is declared, not in charts/, and switched off by %s", path.Join(c.path, at), d.Name, d.Condition)
		return
	}
	place, file := path.Join(at, "charts", d.Name), c.file(path.Join(at, chartutil.ChartfileName))
	if !c.archive && file != path.Join(c.path, at, chartutil.ChartfileName) {
		return // a chart beside this one, which has the gap itself
	}
	g := Gap{Subject: c.file(place), File: file, Field: "dependencies",
		Text: strings.TrimSpace(d.Name + " " + d.Version), Remedy: "run: helm dependency build " + path.Join(c.path, at) + ", " + declare}
	_, err := s.dependencySource(d, nil)
	switch {
	case c.archive, !hasFile(c.files, path.Join(at, chartutil.ChartfileName)):
		g.Remedy = "unpack the chart, run helm dependency build in it, and pack it again, " + declare
	case err == nil && s.o.Charts == nil:
		g.Remedy = "let sealer fetch it (--fetch-charts), or " + g.Remedy
	}
	cause := dependencyGap
	if at != "" {
		cause = innerGap
	}
	if err := c.lacks[place]; err != nil {
		g.Reason = cause.reason + ": " + firstLine(err)
	}
	s.addGap(cause, g)
}

// conditionOff reports whether the first path of a dependency's condition
// that has a value has false.
func conditionOff(condition string, vals chartutil.Values) bool {
	for c := range strings.SplitSeq(condition, ",") {
		if v, err := vals.PathValue(strings.TrimSpace(c)); err == nil {
			b, ok := v.(bool)
			return ok && !b
		}
	}
	return false
}
