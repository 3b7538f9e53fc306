package imagelist

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// maxFollowed bounds how deep charts that install charts are followed.
const maxFollowed = 8

// An install is an object that makes a controller install a chart or a directory:
// Argo CD's Application, Flux's HelmRelease and Kustomization, k3s's HelmChart.
type install struct {
	p place
	n *yaml.Node

	wanted *wantedChart // of a chart that any other map names
	line   int          // there; 0 is that of n
	err    error        // why wanted has no source
}

// A wanted chart is the chart that an install asks for.
type wantedChart struct {
	source  string // as Charts takes it
	data    []byte // the archive itself
	dir     string // a directory of the repository
	here    bool   // dir is sure to be the one of the rootfs
	release release
}

// fluxGroup is the group of Flux's sources.
const fluxGroup = "source.toolkit.fluxcd.io"

// noteSource notes a source that installs refer to.
func (s *scanner) noteSource(p place, n *yaml.Node) {
	s.noteConfig(p, n)
	if p.group == "kustomize.toolkit.fluxcd.io" {
		s.noteSubstitutes(n)
	}
	if p.group != fluxGroup {
		return
	}
	if s.fluxSources == nil {
		s.fluxSources = map[string]*yaml.Node{}
	}
	s.fluxSources[sourceKey(p.kind, text(n, "metadata", "namespace"), text(n, "metadata", "name"))] = n
}

func sourceKey(kind, namespace, name string) string {
	return kind + "/" + cmp.Or(namespace, "default") + "/" + name
}

// installer notes an object that is to be followed, or tells its gap.
func (s *scanner) installer(p place, n *yaml.Node) {
	switch p.group + "/" + p.kind {
	case "argoproj.io/Application", "helm.toolkit.fluxcd.io/HelmRelease", "kustomize.toolkit.fluxcd.io/Kustomization", "helm.cattle.io/HelmChart",
		fluxGroup + "/OCIRepository", fluxGroup + "/GitRepository", fluxGroup + "/HelmChart", fluxGroup + "/Bucket":
		if p.limit != Optional && p.embedded == 0 {
			s.installs = append(s.installs, install{p: p, n: n})
			return
		}
	}
	s.gap(p, spot{line: n.Line}, installerGap, p.object)
}

// follow renders the charts that objects of the files ask for, with the values
// that they give, and those that their renderings ask for. What cannot be
// followed is a gap.
func (s *scanner) follow() error {
	followed, failed := map[string]bool{}, map[string]bool{}
	for depth := 0; len(s.installs) > 0; depth++ {
		round := s.installs
		s.installs = nil
		for _, in := range round {
			if in.p.group == fluxGroup {
				s.laterSources = append(s.laterSources, in)
				continue
			}
			refs, err := s.followOne(in, depth)
			if s.ctx.Err() != nil {
				return s.ctx.Err()
			}
			for _, ref := range refs {
				followed[ref] = followed[ref] || err == nil
				failed[ref] = failed[ref] || err != nil
			}
		}
	}
	for _, in := range s.laterSources {
		key := sourceKey(in.p.kind, text(in.n, "metadata", "namespace"), text(in.n, "metadata", "name"))
		if !followed[key] && !failed[key] { // else its installs tell
			s.gap(in.p, spot{line: in.n.Line}, installerGap, in.p.object)
		}
	}
	return nil
}

// followOne follows one object. It returns the sources that the object refers to.
func (s *scanner) followOne(in install, depth int) (refs []string, err error) {
	wanted, refs, err := s.wantedCharts(in)
	if depth >= maxFollowed {
		err = errors.New("it is installed by a chart that is installed by a chart, and so on")
	}
	if err != nil {
		s.notFollowed(in, err)
		return refs, err
	}
	for _, w := range wanted {
		switch {
		case w.dir != "":
			err = s.followDir(in, w)
		default:
			err = s.followChart(in, w)
		}
		if err != nil {
			s.notFollowed(in, err)
			return refs, err
		}
	}
	return refs, nil
}

// notFollowed makes the gap of an object that could not be followed.
func (s *scanner) notFollowed(in install, err error) {
	c := installerGap
	switch {
	case errors.Is(err, errNotAsked):
		c.remedy = "let sealer fetch it (--fetch-charts), or " + c.remedy
	case !errors.Is(err, errUnknownSource):
		c.reason += ": " + firstLine(err)
	}
	s.gap(in.p, spot{line: cmp.Or(in.line, in.n.Line)}, c, in.p.object)
}

var (
	errNotAsked      = errors.New("charts are not fetched")
	errUnknownSource = errors.New("its source is not known")
)

// sameDirGap is told where a directory of a repository was taken for the one of
// that name here.
var sameDirGap = cause{Doubtful, "elsewhere", "installs a directory of a repository; the one of that name here was taken for it",
	"see that it is the same, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// followDir takes a directory of a repository for that of the same name here,
// which the scan reads anyway. A chart is rendered with the object's values.
func (s *scanner) followDir(in install, w wantedChart) error {
	dir := w.localDir()
	if dir == "." || !s.exists(dir) || s.areaOf(dir) == other {
		return errUnknownSource
	}
	if isChart(s.fsys, dir) && !s.installed[dir] {
		c, err := s.loadChart(s.fsys, dir, false)
		if err != nil {
			return err
		}
		if err := s.renderChart(c, w.release); err != nil {
			return err
		}
	}
	if !w.here {
		s.gap(in.p, spot{line: in.n.Line}, sameDirGap, in.p.object)
	}
	return nil
}

// chartOutsideGap is told of a chart whose images are inside: its controller fetches
// the chart itself when it runs.
var chartOutsideGap = cause{Doubtful, "elsewhere", "", "have the chart in a repository or registry that its controller reaches behind the air gap, and name that one here, or install the chart from charts/; " + declare}

// followChart brings a chart and renders it.
func (s *scanner) followChart(in install, w wantedChart) error {
	name := "chart.tgz"
	if w.data == nil {
		if s.o.Charts == nil {
			return errNotAsked
		}
		a, err := s.o.Charts(s.ctx, w.source)
		if err != nil {
			return fmt.Errorf("%s: %w", w.source, err)
		}
		name, w.data = a.File, a.Data
		outside := chartOutsideGap
		outside.reason = "the images of its chart are inside, the chart is not: its controller fetches " + w.source
		s.gap(in.p, spot{line: cmp.Or(in.line, in.n.Line)}, outside, in.p.object)
	}
	files, err := loader.LoadArchiveFiles(bytes.NewReader(w.data))
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	c := &source{fsys: s.fsys, path: in.p.file + ":" + name, archive: true, files: files}
	if c.chart, err = loader.LoadFiles(files); err == nil {
		err = c.chart.Validate()
	}
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	c.addTemplates(c.chart)
	s.definitions(c)
	return s.renderChart(c, w.release)
}

// wantedCharts reads an object. The error wraps errUnknownSource where nothing
// can be followed.
func (s *scanner) wantedCharts(in install) ([]wantedChart, []string, error) {
	if in.wanted != nil {
		if in.err == nil && in.wanted.source == "" && in.wanted.dir == "" {
			in.err = errUnknownSource
		}
		return []wantedChart{*in.wanted}, nil, in.err
	}
	n, namespace := in.n, cmp.Or(text(in.n, "metadata", "namespace"), "default")
	switch in.p.group + "/" + in.p.kind {
	case "argoproj.io/Application":
		out, err := s.argoCharts(n)
		return out, nil, err
	case "helm.toolkit.fluxcd.io/HelmRelease":
		return s.fluxChart(n, namespace)
	case "kustomize.toolkit.fluxcd.io/Kustomization":
		from := get(n, "spec", "sourceRef")
		key := sourceKey(text(from, "kind"), cmp.Or(text(from, "namespace"), namespace), text(from, "name"))
		return []wantedChart{{dir: cmp.Or(text(n, "spec", "path"), ".")}}, []string{key}, nil
	case "helm.cattle.io/HelmChart":
		out, err := rancherChart(n)
		return []wantedChart{out}, nil, err
	}
	return nil, nil, errUnknownSource
}

// argoCharts reads an Application of Argo CD.
func (s *scanner) argoCharts(n *yaml.Node) (out []wantedChart, err error) {
	sources := items(get(n, "spec", "sources"))
	if one := get(n, "spec", "source"); isMap(one) && len(sources) == 0 {
		sources = []*yaml.Node{one}
	}
	if len(sources) == 0 {
		return nil, errUnknownSource
	}
	for _, it := range sources {
		repo, name, revision := text(it, "repoURL"), text(it, "chart"), text(it, "targetRevision")
		helm := get(it, "helm")
		w := wantedChart{release: release{name: cmp.Or(text(helm, "releaseName"), text(n, "metadata", "name"), releaseName),
			namespace: cmp.Or(text(n, "spec", "destination", "namespace"), releaseNamespace)}}
		if err := w.release.give(get(helm, "values"), get(helm, "valuesObject")); err != nil {
			return nil, err
		}
		for _, param := range items(get(helm, "parameters")) {
			flag := "--set"
			if text(param, "forceString") == "true" {
				flag = "--set-string"
			}
			value := strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(text(param, "value"))
			w.release.sets = append(w.release.sets, setting{flag, text(param, "name") + "=" + value})
		}
		if name == "" || strings.HasPrefix(firstValue(items(get(helm, "valueFiles"))), "$") {
			if err := s.valueFiles(&w.release, items(get(helm, "valueFiles")), text(it, "path"), text(helm, "ignoreMissingValueFiles") == "true"); err != nil {
				return nil, err
			}
		} else {
			for _, f := range items(get(helm, "valueFiles")) {
				w.release.inChart = append(w.release.inChart, f.Value)
			}
		}
		for _, param := range items(get(helm, "fileParameters")) {
			file, ok := s.repositoryFile(text(param, "path"), text(it, "path"))
			if !ok {
				return nil, fmt.Errorf("it takes values from the file %s, which is not in these files", text(param, "path"))
			}
			w.release.sets = append(w.release.sets, setting{"--set-file", text(param, "name") + "=" + file})
		}
		switch {
		case name == "" && text(it, "path") != "":
			w.dir = text(it, "path")
		case name == "" && text(it, "ref") != "":
			continue // for values files of the others
		case name == "":
			return nil, errUnknownSource
		default:
			if !strings.Contains(repo, "://") {
				repo = "oci://" + repo
			}
			if w.source, err = chartSource(repo, name, revision); err != nil {
				return nil, err
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// fluxChart reads a HelmRelease of Flux.
func (s *scanner) fluxChart(n *yaml.Node, namespace string) ([]wantedChart, []string, error) {
	name := cmp.Or(text(n, "spec", "releaseName"), text(n, "metadata", "name"))
	w := wantedChart{release: release{name: name, namespace: cmp.Or(text(n, "spec", "targetNamespace"), namespace)}}
	if target := text(n, "spec", "targetNamespace"); target != "" && text(n, "spec", "releaseName") == "" {
		w.release.name = target + "-" + name
	}
	spec, from := get(n, "spec", "chart", "spec"), get(n, "spec", "chartRef")
	var refs []string
	refer := func(ref *yaml.Node, namespace string) *yaml.Node {
		key := sourceKey(text(ref, "kind"), cmp.Or(text(ref, "namespace"), namespace), text(ref, "name"))
		refs = append(refs, key)
		return s.fluxSources[key]
	}
	if text(from, "kind") == "HelmChart" {
		hc := refer(from, namespace)
		spec, namespace = get(hc, "spec"), cmp.Or(text(from, "namespace"), namespace)
	}
	if err := s.valuesFrom(&w.release, items(get(n, "spec", "valuesFrom")), namespace); err != nil {
		return nil, refs, err
	}
	if err := w.release.give(get(n, "spec", "values")); err != nil {
		return nil, refs, err
	}
	if text(from, "kind") == "OCIRepository" {
		src := refer(from, namespace)
		url, version := text(src, "spec", "url"), cmp.Or(text(src, "spec", "ref", "semver"), text(src, "spec", "ref", "tag"))
		if d := text(src, "spec", "ref", "digest"); d != "" {
			w.source = url + "@" + d
		} else if version != "" {
			w.source = url + ":" + strings.ReplaceAll(version, " ", "%20")
		}
		if w.source == "" || url == "" {
			return nil, refs, errUnknownSource
		}
		return []wantedChart{w}, refs, nil
	}
	ref := get(spec, "sourceRef")
	src := refer(ref, namespace)
	switch {
	case text(ref, "kind") == "GitRepository" || text(ref, "kind") == "Bucket":
		w.dir = text(spec, "chart")
		if err := s.valueFiles(&w.release, items(get(spec, "valuesFiles")), w.dir, text(spec, "ignoreMissingValuesFiles") == "true"); err != nil {
			return nil, refs, err
		}
	case src == nil || text(ref, "kind") != "HelmRepository":
		return nil, refs, errUnknownSource
	default:
		for _, f := range items(get(spec, "valuesFiles")) {
			w.release.inChart = append(w.release.inChart, f.Value)
		}
		var err error
		if w.source, err = chartSource(text(src, "spec", "url"), text(spec, "chart"), text(spec, "version")); err != nil {
			return nil, refs, err
		}
	}
	return []wantedChart{w}, refs, nil
}

// firstValue is the text of the first of several nodes.
func firstValue(list []*yaml.Node) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Value
}

// rancherChart reads a HelmChart of k3s and RKE2.
func rancherChart(n *yaml.Node) (w wantedChart, err error) {
	spec := get(n, "spec")
	w.release = release{name: cmp.Or(text(n, "metadata", "name"), releaseName), namespace: cmp.Or(text(spec, "targetNamespace"), "default")}
	if err := w.release.give(get(spec, "valuesContent"), get(spec, "values")); err != nil {
		return w, err
	}
	for _, p := range pairsOf(get(spec, "set")) {
		w.release.sets = append(w.release.sets, setting{"--set", p[0].Value + "=" + strings.ReplaceAll(p[1].Value, ",", `\,`)})
	}
	chart, repo := text(spec, "chart"), text(spec, "repo")
	switch content := text(spec, "chartContent"); {
	case content != "":
		if w.data, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(content), "")); err != nil {
			return w, fmt.Errorf("chartContent: %w", err)
		}
		return w, nil
	case strings.HasPrefix(chart, "oci://"):
		i := strings.LastIndex(chart, "/")
		w.source, err = chartSource(chart[:i], chart[i+1:], text(spec, "version"))
		return w, err
	case repo != "" && chart != "":
		w.source, err = chartSource(repo, chart, text(spec, "version"))
		return w, err
	}
	return w, errUnknownSource
}
