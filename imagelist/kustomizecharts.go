package imagelist

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/types"
	k8syaml "sigs.k8s.io/yaml"
)

// A homeChart is one entry of a kustomization's helmCharts whose chart lies in
// its chartHome.
type homeChart struct {
	dir     string
	release release
	node    *yaml.Node
}

// helmCharts looks at the charts that a kustomization renders (--enable-helm). One
// that lies in its chartHome is rendered with the values that it gives; one that
// kustomize would fetch is a gap.
func (s *scanner) helmCharts(k *kustomization, p place, n *yaml.Node) {
	for i, it := range items(get(n, "helmCharts")) {
		w, err := s.chartOfHome(p, n, it)
		if err != nil {
			s.addGap(brokenKustomization, Gap{Subject: p.file, File: p.file, Line: p.base + it.Line, Object: p.object, Text: text(it, "name"),
				Reason: "cannot be built: helmCharts: " + err.Error()})
			continue
		}
		if w.dir != "" {
			s.installs = append(s.installs, install{p: p, n: it, line: it.Line, wanted: &w})
			k.charts = append(k.charts, homeChart{w.localDir(), w.release, it})
			continue
		}
		k.remote = true
		fields := walker{s: s, p: p}
		fields.fields(it, atIndex("helmCharts", i), "", inherited{}, 0)
		s.gap(p, spot{it.Line, atIndex("helmCharts", i), text(it, "name"), ""}, chartElsewhereGap, "")
	}
}

// chartOfHome finds the chart of an entry of helmCharts where kustomize looks for it
// before it fetches. One without a directory is elsewhere. The error says why kustomize
// refuses the entry.
func (s *scanner) chartOfHome(p place, n, it *yaml.Node) (w wantedChart, err error) {
	dir, name := path.Dir(p.file), text(it, "name")
	home := path.Join(dir, cmp.Or(text(n, "helmGlobals", "chartHome"), "charts"))
	for _, at := range []string{path.Join(home, name+"-"+text(it, "version"), name), path.Join(home, name)} {
		if name != "" && s.exists(at) && s.areaOf(at) != other && isChart(s.fsys, at) {
			w.dir, w.here = at, true
			break
		}
	}
	if w.dir == "" {
		return w, nil
	}
	w.release = release{name: cmp.Or(text(it, "releaseName"), releaseName), namespace: cmp.Or(text(it, "namespace"), releaseNamespace),
		kubeVersion: text(it, "kubeVersion")}
	for _, v := range items(get(it, "apiVersions")) {
		w.release.apis = append(w.release.apis, v.Value)
	}
	return w, s.homeValues(&w, dir, it)
}

// homeValues gives the release the values of an entry of helmCharts. As in kustomize, valuesMerge says how valuesInline and
// valuesFile, without one the chart's own values, are put together, and
// additionalValuesFiles win over both.
func (s *scanner) homeValues(w *wantedChart, dir string, it *yaml.Node) error {
	inline, file := get(it, "valuesInline"), ""
	if name := text(it, "valuesFile"); name != "" {
		file = path.Join(dir, name)
		w.release.read = append(w.release.read, file)
	}
	var err error
	give := func(name string) {
		if name == "" || err != nil {
			return
		}
		var data []byte
		if data, err = readLimited(s.fsys, name, maxFile); err == nil {
			err = w.release.give(&yaml.Node{Kind: yaml.ScalarNode, Value: string(data)})
		}
	}
	switch merge := text(it, "valuesMerge"); {
	case !slices.Contains([]string{"", "override", "merge", "replace"}, merge):
		return fmt.Errorf("valuesMerge %q: want override, merge or replace", merge)
	case len(entries(inline)) == 0:
		give(file)
	case merge == "merge":
		err = w.release.give(inline)
		if own := path.Join(w.localDir(), "values.yaml"); file == "" && s.exists(own) {
			file = own
		}
		give(file)
	default:
		if merge != "replace" {
			give(file)
		}
		if err == nil {
			err = w.release.give(inline)
		}
	}
	for _, f := range items(get(it, "additionalValuesFiles")) {
		w.release.read = append(w.release.read, path.Join(dir, f.Value))
		give(path.Join(dir, f.Value))
	}
	return err
}

// chartsAlone reports for each directory of a chart whether kustomizations alone
// have it rendered, so that an image that all of them replace is not used.
func (b *kustomizer) chartsAlone() map[string]bool {
	uses := map[string]int{}
	for _, k := range b.s.kustomizations {
		for _, c := range k.charts {
			uses[c.dir]++
		}
	}
	alone := map[string]bool{}
	for dir, n := range uses {
		alone[dir] = b.s.rendered[dir] == n
	}
	return alone
}

// chartFindings are the findings in the renderings of a chart.
func (b *kustomizer) chartFindings(dir string) (all []int) {
	for _, name := range slices.Sorted(maps.Keys(b.files)) {
		if strings.HasPrefix(name, dir+"/") {
			all = append(all, b.files[name]...)
		}
	}
	return all
}

// inflate puts the objects of k's charts as resources into the place of its helmCharts,
// so that transformers, patches and the kustomizations around it see them.
func (kb *kustomizeBuild) inflate(k *kustomization) {
	if len(k.charts) == 0 {
		return
	}
	var names []string
	for i, c := range k.charts {
		text, templates, ok := kb.s.homeObjects(c)
		if kb.bytes += len(text); !ok || kb.bytes > maxKustomizeBytes {
			kb.ok = false
			return
		}
		kb.charts[c.node] = templates
		if len(bytes.TrimSpace(text)) == 0 {
			continue // a chart without objects, and kustomize refuses an empty resource
		}
		name := fmt.Sprintf(".sealer-helm-chart-%d.yaml", i)
		names = append(names, name)
		kb.ok = kb.ok && kb.disk.WriteFile("/"+path.Join(path.Dir(k.place.file), name), text) == nil
	}
	at := "/" + k.place.file
	data, err := kb.disk.ReadFile(at)
	var changed types.Kustomization
	if err != nil || changed.Unmarshal(data) != nil {
		return // kustomize says why
	}
	changed.HelmCharts, changed.HelmGlobals = nil, nil
	changed.Resources = append(changed.Resources, names...)
	if data, err = k8syaml.Marshal(changed); err == nil {
		err = kb.disk.WriteFile(at, data)
	}
	kb.ok = kb.ok && err == nil
}

// homeObjects renders a chart as kustomize has helm do it. It returns the objects and
// the files of the templates; ok is false for a chart that does not render, whose gap
// the rendering for the templates has told.
func (s *scanner) homeObjects(h homeChart) (text []byte, templates []string, ok bool) {
	c, err := s.loadChart(s.fsys, h.dir, false)
	if err != nil || c == nil {
		return nil, nil, false
	}
	vals, err := s.values(c, h.release)
	if err != nil {
		return nil, nil, false
	}
	s.release = h.release
	caps := s.capabilities(c, h.release)
	out, err := s.render(c.chart, vals, caps, nil)
	if err != nil {
		return nil, nil, false
	}
	var all bytes.Buffer
	if isOn(h.node, "includeCRDs") {
		for _, crd := range c.chart.CRDObjects() {
			all.WriteString("\n---\n")
			all.Write(crd.File.Data)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if path.Base(name) == "NOTES.txt" {
			continue
		}
		docs, faults := parse(splitHelm([]byte(out[name])))
		if len(faults) > 0 {
			return nil, nil, false
		}
		for _, d := range docs {
			if h.skips(d.node) {
				continue
			}
			data, err := yaml.Marshal(d.node)
			if err != nil {
				return nil, nil, false
			}
			all.WriteString("\n---\n")
			all.Write(data)
		}
	}
	for _, t := range c.templates {
		templates = append(templates, t.file)
	}
	return all.Bytes(), templates, true
}

// skips reports whether an entry's settings leave out an object: hooks with skipHooks,
// those of tests with skipTests.
func (h homeChart) skips(object *yaml.Node) bool {
	hook := text(object, "metadata", "annotations", "helm.sh/hook")
	return hook != "" && isOn(h.node, "skipHooks") || strings.HasPrefix(hook, "test") && isOn(h.node, "skipTests")
}

func isOn(n *yaml.Node, key string) bool { return text(n, key) == "true" }

// useCharts puts into used the templates of charts that were inflated wherever they
// are rendered.
func (b *kustomizer) useCharts(used, unbuilt map[string]bool, inflated map[*yaml.Node][]string) {
	left := maps.Clone(b.alone)
	for _, k := range b.s.kustomizations {
		for _, c := range k.charts {
			if _, ok := inflated[c.node]; !ok || unbuilt[path.Dir(k.place.file)] {
				left[c.dir] = false
			}
		}
	}
	for _, k := range b.s.kustomizations {
		for _, c := range k.charts {
			for _, name := range inflated[c.node] {
				if left[c.dir] && strings.HasPrefix(name, c.dir+"/") {
					used[name] = true
				}
			}
		}
	}
}
