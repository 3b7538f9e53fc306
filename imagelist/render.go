package imagelist

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// The release that charts are rendered as. Names of objects follow from it,
// images hardly ever.
const (
	releaseName      = "dryrun"
	releaseNamespace = "default"
)

// renderReleases renders a chart once for each start command that installs it,
// or as it is when none does.
func (s *scanner) renderReleases(c *source, releases []release) error {
	if len(releases) == 0 {
		releases = []release{{name: releaseName, namespace: releaseNamespace, plain: true}}
	}
	for i, r := range releases {
		if i > 0 { // rendering changes the chart
			var err error
			if c.chart, err = loader.LoadFiles(c.files); err != nil {
				return nil // it was loaded before
			}
		}
		if r.plain {
			r.name, r.namespace = releaseName, releaseNamespace
		}
		if err := s.renderChart(c, r); err != nil {
			return err
		}
	}
	return nil
}

// renderChart renders a chart and scans the documents. A chart that does not
// render is still read as far as it goes: see salvage. The error is only that
// of a context that is done.
func (s *scanner) renderChart(c *source, r release) error {
	meta := c.chart.Metadata
	info := Chart{Path: c.path, Name: meta.Name, Version: meta.Version, Release: r.name, Namespace: r.namespace}
	if r.plain {
		info.Release, info.Namespace = "", ""
	}
	defer func() { s.res.Charts = append(s.res.Charts, info) }()
	if meta.Type == "library" {
		return nil
	}
	vals, err := s.values(c, r)
	if err != nil {
		s.fault(fault{file: c.path, err: err, hard: true})
		info.Error = err.Error()
		return nil
	}
	caps := s.capabilities(c, r)
	info.KubeVersion = caps.KubeVersion.Version
	s.missingDependencies(c, vals)
	s.countRendering(c)
	before, faults := len(s.res.Found), len(s.faults)
	s.release, s.objects, s.builtin = r, 0, 0
	out, err := s.render(c.chart, vals, caps, nil)
	switch {
	case err == nil:
		s.rendering(c, out, place{})
	case s.ctx.Err() != nil:
		return s.ctx.Err()
	case errors.Is(err, errUnstoppable):
		return fmt.Errorf("render %s: %w", c.path, err)
	case errors.Is(err, errRunaway):
		s.fault(fault{file: c.path, err: fmt.Errorf("render chart: %w", err)})
		info.Error = err.Error()
		return nil
	default:
		info.Error = firstLine(err)
		if err := s.salvage(c, vals, caps, err); err != nil {
			return err
		}
	}
	s.valuesPaths(c, vals, s.res.Found[before:])
	s.announced(c)
	if s.o.ChartProbe {
		s.probe(c, vals, caps)
	}
	if len(s.res.Found) == before && len(s.faults) == faults {
		s.offerValues(c)
		if s.objects == 0 || s.builtin > 0 { // else its operator has the images
			s.warn("%s: the chart names no image", c.path)
		}
	}
	return cmp.Or(s.ctx.Err(), s.endless)
}

// render processes the dependencies of a chart as Helm's install does, and
// renders it. With lax, values may be missing or not fit the chart's schema, and
// templates may be.
func (s *scanner) render(ch *chart.Chart, vals map[string]any, caps *chartutil.Capabilities, lax *salvager) (map[string]string, error) {
	if err := chartutil.ProcessDependenciesWithMerge(ch, vals); err != nil {
		return nil, err
	}
	if lax != nil {
		lax.prepare(ch)
	}
	o := chartutil.ReleaseOptions{Name: s.release.name, Namespace: s.release.namespace, Revision: 1, IsInstall: true}
	rv, err := chartutil.ToRenderValuesWithSchemaValidation(ch, vals, o, caps, true)
	if err != nil {
		return nil, err
	}
	if lax == nil {
		if err := s.checkSchema(ch, rv); err != nil {
			return nil, err
		}
	}
	if err := endlessLoop(ch); err != nil {
		return nil, err
	}
	var stop atomic.Bool
	if lax == nil {
		return s.watched(&stop, func() (map[string]string, error) { return renderStoppable(ch, rv, &stop) })
	}
	if s.leftBehind > 0 {
		return nil, errRunaway // one that cannot be stopped is enough
	}
	e := engine.Engine{LintMode: true} // takes missing values as empty, and knows no lookup
	return s.watched(&stop, func() (map[string]string, error) { return e.Render(ch, rv) })
}

// checkSchema checks the values that ch is rendered with.
func (s *scanner) checkSchema(ch *chart.Chart, rv chartutil.Values) error {
	values, _ := rv["Values"].(chartutil.Values)
	skipped, err := checkSchema(ch, values)
	for _, text := range skipped {
		s.warn("values.schema.json of %s: the values are not checked against it; helm install will want to fetch it", text)
	}
	return err
}

var errRunaway = errors.New("the templates do not come to an end")

// errUnstoppable ends a scan: a single call of a function goes on to take memory, and
// nothing but the end of the process frees it.
var errUnstoppable = fmt.Errorf("%w: a single call takes more than %d MiB of memory and cannot be stopped; take the chart out, or set the value that it counts to", errRunaway, maxRenderHeap>>20)

const (
	// stopTime is how long a rendering may take to see that it is to stop.
	stopTime = 2 * time.Second
	// stopTimeMemory is the same for one that takes too much memory, and goes on to.
	stopTimeMemory = 200 * time.Millisecond
)

// watched runs a rendering under limits of processor time and memory, so that
// the outcome is the same on a busy machine. When a limit is reached, stop is set,
// and the rendering ends at its next turn of a loop. One that does not, in a single
// call of a function, or without its values, is left behind: s.leftBehind counts
// them, and the scan renders no further chart without its values. One that goes on to
// take memory is errUnstoppable.
func (s *scanner) watched(stop *atomic.Bool, render func() (map[string]string, error)) (map[string]string, error) {
	type result struct {
		out map[string]string
		err error
	}
	done := make(chan result, 1)
	clocks := make(chan func() time.Duration, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		clocks <- threadTime()
		out, err := render()
		done <- result{out, err}
	}()
	clock, limit := <-clocks, cmp.Or(s.renderTime, maxRenderTime)
	used := clock()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	start := heapBytes()
	give := func(err error) (map[string]string, error) {
		stop.Store(true)
		select {
		case <-done:
		case <-time.After(stopTime):
			s.leftBehind++
		}
		return nil, err
	}
	for {
		select {
		case r := <-done:
			size := 0
			for _, text := range r.out {
				size += len(text)
			}
			if size > maxChartRender {
				return nil, fmt.Errorf("%w: %d bytes rendered, at most %d are read", errRunaway, size, maxChartRender)
			}
			return r.out, r.err
		case <-s.ctx.Done():
			return give(s.ctx.Err())
		case <-ticker.C:
			if now := heapBytes(); now > start+cmp.Or(s.renderHeap, maxRenderHeap) {
				stop.Store(true)
				select {
				case <-done:
					return nil, fmt.Errorf("%w: more than %d MiB of memory", errRunaway, maxRenderHeap>>20)
				case <-time.After(stopTimeMemory):
					s.leftBehind++
					s.endless = errUnstoppable
					return nil, errUnstoppable
				}
			}
			if clock() > used+limit {
				return give(fmt.Errorf("%w: not rendered after %s of processor time", errRunaway, limit))
			}
		}
	}
}

// hugeCount is a function that makes as many values as it is told, with a
// number that no chart has.
var hugeCount = regexp.MustCompile(`\b(?:until|untilStep|seq|repeat|indent|nindent|randAlpha|randAlphaNum|randNumeric|randAscii|randBytes)(?:\s+\d+)*?\s+(\d{8,})\b`)

// endlessLoop refuses a chart with a loop over more values than memory holds,
// which the engine would make before the first of them is rendered.
func endlessLoop(ch *chart.Chart) error {
	for _, t := range ch.Templates {
		if !hasLongNumber(t.Data) {
			continue // nearly all, and the expression is slow
		}
		if m := hugeCount.FindIndex(t.Data); m != nil {
			line := 1 + bytes.Count(t.Data[:m[0]], []byte{'\n'})
			return fmt.Errorf("%w: %s:%d: %q", errRunaway, t.Name, line, t.Data[m[0]:m[1]])
		}
	}
	for _, d := range ch.Dependencies() {
		if err := endlessLoop(d); err != nil {
			return err
		}
	}
	return nil
}

// hasLongNumber reports whether a text has eight digits in a row.
func hasLongNumber(text []byte) bool {
	run := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			run = 0
		} else if run++; run == 8 {
			return true
		}
	}
	return false
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// rendering scans the files that a chart rendered to, in the order of their
// names. Each of them is a template of the chart or of a dependency.
func (s *scanner) rendering(c *source, out map[string]string, at place) {
	c.addTemplates(c.chart)
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if path.Base(name) == "NOTES.txt" || strings.TrimSpace(out[name]) == "" {
			continue
		}
		p := at
		p.rendered = true
		t, ok := c.templates[name]
		if p.file = t.file; !ok {
			p.file = c.templateFile(name)
		}
		from := len(s.res.Found)
		s.gapLines = nil
		if at.limit != Optional {
			s.mentionsOf(p.file, []byte(out[name]), true)
		}
		docs, faults := parse(splitHelm([]byte(out[name])))
		for _, f := range faults {
			err := fmt.Errorf("line %d of the rendering: %w", f.line, f.err)
			if at.limit != "" {
				s.warn("%s: %v", p.file, err)
				continue
			}
			s.fault(fault{file: p.file, text: f.text, err: err})
		}
		for _, d := range docs {
			s.document(p, d)
		}
		trace(s.res.Found[from:], t.text, out[name])
		s.traceGaps(t.text, out[name])
	}
}

// countRendering notes that the chart is rendered, and with it those beside it that it
// depends on.
func (s *scanner) countRendering(c *source) {
	if s.rendered == nil {
		s.rendered = map[string]int{}
	}
	s.rendered[c.path]++
	for _, dir := range c.local {
		s.rendered[dir]++
	}
}

// capabilities are those that a chart is rendered with: the cluster's, unless the release
// names a version of Kubernetes, and further API versions.
func (s *scanner) capabilities(c *source, r release) *chartutil.Capabilities {
	kube, err := chartutil.ParseKubeVersion(r.kubeVersion)
	if r.kubeVersion == "" || err != nil {
		kube = s.kubeVersion(c)
	}
	return &chartutil.Capabilities{KubeVersion: *kube, APIVersions: append(s.apiVersions(), r.apis...), HelmVersion: chartutil.DefaultCapabilities.HelmVersion}
}

// apiVersions returns .Capabilities.APIVersions: Helm's built-in set, those of
// the options, and those of the CRDs found.
func (s *scanner) apiVersions() chartutil.VersionSet {
	extra := slices.Clone(s.o.APIVersions)
	for v := range s.apis {
		extra = append(extra, v)
	}
	slices.Sort(extra)
	return append(slices.Clone(chartutil.DefaultVersionSet), slices.Compact(extra)...)
}

// kubeVersion returns the version that a chart is rendered for: the cluster's
// where the chart and the Kubefile allow it, else the nearest that they do.
func (s *scanner) kubeVersion(c *source) *chartutil.KubeVersion {
	want, err := chartutil.ParseKubeVersion(s.o.KubeVersion)
	if err != nil {
		s.fault(fault{file: "kube-version", text: s.o.KubeVersion, err: err, hard: true})
		want, _ = chartutil.ParseKubeVersion(DefaultKubeVersion)
	}
	fits := func(v string) bool {
		for _, r := range []string{s.o.KubeRange, c.chart.Metadata.KubeVersion} {
			if r != "" && !chartutil.IsCompatibleRange(r, v) {
				return false
			}
		}
		return true
	}
	if fits(want.Version) {
		return want
	}
	from, err := semver.NewVersion(want.Version)
	if err != nil {
		return want
	}
	for distance := range uint64(40) {
		for _, minor := range []uint64{from.Minor() - distance, from.Minor() + distance} {
			for _, patch := range []int{1, 0, 15} {
				v := fmt.Sprintf("v%d.%d.%d", from.Major(), minor, patch)
				if minor > 99 || !fits(v) {
					continue
				}
				got, err := chartutil.ParseKubeVersion(v)
				if err != nil {
					continue
				}
				s.warn("%s: rendered for Kubernetes %s, since %s is outside %s", c.path, v, want.Version,
					strings.TrimSpace(s.o.KubeRange+" "+c.chart.Metadata.KubeVersion))
				return got
			}
		}
	}
	s.warn("%s: no Kubernetes version fits %q; rendered for %s", c.path,
		strings.TrimSpace(s.o.KubeRange+" "+c.chart.Metadata.KubeVersion), want.Version)
	return want
}
