package imagelist

import (
	"cmp"
	"path"

	"go.yaml.in/yaml/v3"
)

// helmCharts looks at the charts that a kustomization renders (--enable-helm). One
// that lies in its chartHome is rendered with the values that it gives; one that
// kustomize would fetch is a gap.
func (s *scanner) helmCharts(k *kustomization, p place, n *yaml.Node) {
	for i, it := range items(get(n, "helmCharts")) {
		k.remote = true
		w, ok := s.chartOfHome(p, n, it)
		if ok {
			s.installs = append(s.installs, install{p: p, n: it, line: it.Line, wanted: &w})
			continue
		}
		fields := walker{s: s, p: p}
		fields.fields(it, atIndex("helmCharts", i), "", inherited{}, 0)
		s.gap(p, spot{it.Line, atIndex("helmCharts", i), text(it, "name"), ""}, chartElsewhereGap, "")
	}
}

// chartOfHome finds the chart of an entry of helmCharts where kustomize looks for it
// before it fetches.
func (s *scanner) chartOfHome(p place, n, it *yaml.Node) (w wantedChart, ok bool) {
	dir, name := path.Dir(p.file), text(it, "name")
	home := path.Join(dir, cmp.Or(text(n, "helmGlobals", "chartHome"), "charts"))
	for _, at := range []string{path.Join(home, name+"-"+text(it, "version"), name), path.Join(home, name)} {
		if name != "" && s.exists(at) && s.areaOf(at) != other && isChart(s.fsys, at) {
			w.dir, w.here = at, true
			break
		}
	}
	if w.dir == "" {
		return w, false
	}
	w.release = release{name: cmp.Or(text(it, "releaseName"), releaseName), namespace: cmp.Or(text(it, "namespace"), releaseNamespace)}
	files := []*yaml.Node{get(it, "valuesFile")}
	files = append(files, items(get(it, "additionalValuesFiles"))...)
	for _, f := range files {
		if !isScalar(f) {
			continue
		}
		data, err := readLimited(s.fsys, path.Join(dir, f.Value), maxFile)
		if err != nil || w.release.give(&yaml.Node{Kind: yaml.ScalarNode, Value: string(data)}) != nil {
			return w, false
		}
	}
	return w, w.release.give(get(it, "valuesInline")) == nil // they win
}
