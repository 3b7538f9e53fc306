package imagelist

import (
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// inValues finds the images that a chart's values spell out, each with the
// path of its value. Nothing of it goes into the result of s.
func (s *scanner) inValues(ch *chart.Chart, n *yaml.Node, file string, limit Confidence) []Finding {
	v := newScanner(s.ctx, s.o)
	w := walker{s: v, p: place{file: file, object: ch.Name(), limit: limit}}
	w.fields(n, "", "", inherited{appVersion: ch.AppVersion()}, 0)
	for i, f := range v.res.Found {
		if _, tag := splitTag(f.Written); tag == "" && f.Reference.Digest == "" {
			v.res.Found[i].Confidence = f.Confidence.weaker(Low) // the templates add the tag
		}
	}
	return v.res.Found
}

// valuesPaths notes for each finding of a chart's rendering the value that it
// came from: the value that spells out the same reference, or else the only one
// with the same repository.
func (s *scanner) valuesPaths(c *source, vals map[string]any, found []Finding) {
	if len(found) == 0 {
		return
	}
	all, err := chartutil.CoalesceValues(c.chart, vals)
	if err != nil {
		return
	}
	exact, byName := map[string]string{}, map[string]string{}
	var read func(ch *chart.Chart, v map[string]any, prefix string)
	read = func(ch *chart.Chart, v map[string]any, prefix string) {
		own := maps.Clone(v)
		for _, d := range ch.Dependencies() {
			delete(own, d.Name())
			if sub, ok := v[d.Name()].(map[string]any); ok {
				read(d, sub, prefix+d.Name()+".")
			}
		}
		for _, f := range s.inValues(ch, chartNode(own), "", Low) {
			at := prefix + strings.TrimPrefix(f.Field, ":")
			if _, ok := exact[f.Reference.String()]; !ok {
				exact[f.Reference.String()] = at
			}
			if _, ok := byName[f.Reference.Repository]; ok {
				at = ""
			}
			byName[f.Reference.Repository] = at
		}
	}
	read(c.chart, all.AsMap(), "")
	for i := range found {
		if at, ok := exact[found[i].Reference.String()]; ok {
			found[i].Values = at
			continue
		}
		found[i].Values = byName[found[i].Reference.Repository]
	}
}

// salvageValues reads the values.yaml of a chart that does not render, and
// those of its dependencies.
func (s *scanner) salvageValues(c *source, limit Confidence) {
	var read func(ch *chart.Chart, dir string)
	read = func(ch *chart.Chart, dir string) {
		for _, f := range ch.Raw {
			if f.Name != chartutil.ValuesfileName {
				continue
			}
			n, err := parseYAML(f.Data)
			if err != nil || n == nil || check(n) != nil {
				continue
			}
			for _, found := range s.inValues(ch, n, c.file(path.Join(dir, f.Name)), limit) {
				found.Rule = "values-" + found.Rule
				s.res.Found = append(s.res.Found, found)
			}
		}
		for _, d := range ch.Dependencies() {
			read(d, path.Join(dir, "charts", d.Name()))
		}
	}
	read(c.chart, "")
}

// offerValues lists, as optional, the images in values.yaml of a chart whose
// default rendering has none: it may ask for a setting first.
func (s *scanner) offerValues(c *source) {
	from := len(s.res.Found)
	s.salvageValues(c, Optional)
	for i := range s.res.Found[from:] {
		s.res.Found[from+i].Reason = "the values name it, but nothing that the defaults render"
	}
}

// announced adds the images that a chart's annotations list. They are
// offered; images that the rendering names too are found there.
func (s *scanner) announced(c *source) {
	keys := []string{"artifacthub.io/images", "helm.sh/images", "images"}
	for _, key := range keys {
		list, ok := c.chart.Metadata.Annotations[key]
		if !ok {
			continue
		}
		p := place{file: c.file(chartutil.ChartfileName), object: c.chart.Name(), limit: Announced}
		node, err := parseYAML([]byte(list))
		if err != nil || check(node) != nil {
			s.warn("%s: the annotation %s is not a list of images", p.file, key)
			continue
		}
		for i, it := range items(node) {
			field := atIndex("annotations["+key+"]", i)
			image := it.Value
			if isMap(it) {
				image = text(it, "image")
			}
			if v := judge("image", image); v.ref.Repository != "" {
				s.add(p, spot{0, field, strings.TrimSpace(image), "chart-annotation"}, Announced)
			} else if image != "" {
				s.reject(p, spot{0, field, image, "chart-annotation"}, v.reason)
			}
		}
	}
}

// probe renders a chart with every switch on that is off, and adds as
// optional the images that appear then.
func (s *scanner) probe(c *source, vals map[string]any, caps *chartutil.Capabilities) {
	ch, err := loader.LoadFiles(c.files)
	if err != nil {
		return
	}
	all, err := chartutil.CoalesceValues(ch, vals)
	if err != nil {
		return
	}
	on := switchOn(all.AsMap(), 0)
	if len(on) == 0 {
		return
	}
	known := map[string]bool{}
	for _, f := range s.res.Found {
		known[f.Reference.String()] = true
	}
	out, _ := s.renderLax(c, all, caps)
	from := len(s.res.Found)
	var at place
	s.rendering(c, out, at.optional("rendered only with switches on that are off by default"))
	s.res.Found = append(s.res.Found[:from], slices.DeleteFunc(slices.Clone(s.res.Found[from:]), func(f Finding) bool {
		return known[f.Reference.String()]
	})...)
}

// switchOn sets every false switch below v to true and returns their keys.
func switchOn(v map[string]any, depth int) (keys []string) {
	if depth > maxDepth {
		return nil
	}
	for k, x := range v {
		switch x := x.(type) {
		case bool:
			switch norm(k) {
			case "enabled", "enable", "create", "install", "deploy":
				if !x {
					v[k] = true
					keys = append(keys, k)
				}
			}
		case map[string]any:
			keys = append(keys, switchOn(x, depth+1)...)
		}
	}
	return keys
}
