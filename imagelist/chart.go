package imagelist

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/ignore"
	"helm.sh/helm/v3/pkg/strvals"
)

// A source is a chart as it lies in the rootfs.
type source struct {
	path    string // of the directory or the archive
	archive bool
	files   []*loader.BufferedFile
	chart   *chart.Chart // dependencies processed by the first rendering

	templates map[string]template // by the engine's name
	aliases   map[string]string   // of dependencies: the name they lie under
	local     map[string]string   // directories of dependencies: where they lie beside the chart
}

// A template is one file that renders.
type template struct {
	file string // where it lies in the rootfs
	text string
}

// addTemplates notes the templates of a chart and of its dependencies. A
// dependency with an alias renders under that name, but lies under its own.
func (c *source) addTemplates(ch *chart.Chart) {
	if c.templates == nil {
		c.templates, c.aliases = map[string]template{}, map[string]string{}
		c.addAliases(ch) // Helm forgets them when it processes the dependencies
	}
	var add func(ch *chart.Chart, dir string)
	add = func(ch *chart.Chart, dir string) {
		for _, t := range ch.Templates {
			c.templates[path.Join(ch.ChartFullPath(), t.Name)] = template{c.file(path.Join(dir, t.Name)), string(t.Data)}
		}
		for _, d := range ch.Dependencies() {
			add(d, path.Join(dir, "charts", cmp.Or(c.aliases[d.Name()], d.Name())))
		}
	}
	add(ch, "")
}

func (c *source) addAliases(ch *chart.Chart) {
	for _, d := range ch.Metadata.Dependencies {
		if d != nil && d.Alias != "" {
			c.aliases[d.Alias] = d.Name
		}
	}
	for _, d := range ch.Dependencies() {
		c.addAliases(d)
	}
}

// templateFile returns where the template with the engine's name lies.
func (c *source) templateFile(name string) string {
	if t, ok := c.templates[name]; ok {
		return t.file
	}
	return c.file(strings.TrimPrefix(name, c.chart.Name()+"/"))
}

// file returns where a file of the chart lies: in an archive
// "charts/x.tgz:x/values.yaml".
func (c *source) file(name string) string {
	if c.archive {
		return c.path + ":" + path.Join(c.chart.Name(), name)
	}
	for dir := path.Dir(name); len(c.local) > 0 && dir != "."; dir = path.Dir(dir) {
		if at, ok := c.local[dir]; ok {
			return at + strings.TrimPrefix(name, dir)
		}
	}
	return path.Join(c.path, name)
}

// readCharts loads every chart, notes the API versions that their CRDs bring,
// and then renders one after the other.
func (s *scanner) readCharts(paths []string) error {
	var sources []*source
	for _, p := range paths {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		c, err := s.loadChart(p)
		if err != nil {
			s.fault(fault{file: p, err: fmt.Errorf("load chart: %w", err)})
			s.res.Charts = append(s.res.Charts, Chart{Path: p, Error: err.Error()})
			continue
		}
		if c == nil {
			continue
		}
		s.res.Files += len(c.files)
		sources = append(sources, c)
		for _, crd := range c.chart.CRDObjects() {
			docs, _ := documents(crd.File.Data)
			for _, d := range docs {
				if text(d.node, "kind") == "CustomResourceDefinition" {
					s.definition(d.node)
				}
			}
		}
	}
	for _, c := range sources {
		if err := s.renderChart(c); err != nil {
			return err
		}
		c.files, c.chart, c.templates = nil, nil, nil
	}
	s.unknownCharts()
	return s.ctx.Err()
}

// loadChart returns nil without an error for an archive that is no chart and
// lies where other archives may lie too.
func (s *scanner) loadChart(name string) (*source, error) {
	c := &source{path: name, archive: isArchive(name)}
	var err error
	if c.archive {
		var data []byte
		if data, err = readLimited(s.fsys, name, maxChart); err != nil {
			return nil, err
		}
		c.files, err = loader.LoadArchiveFiles(bytes.NewReader(data))
		if err == nil && !hasFile(c.files, chartutil.ChartfileName) && s.areaOf(name) != charts {
			return nil, nil
		}
	} else {
		c.files, err = s.chartFiles(name)
	}
	if err != nil {
		return nil, err
	}
	c.chart, err = loader.LoadFiles(c.files)
	if err != nil {
		return nil, err
	}
	if err := s.localDependencies(c); err != nil {
		return nil, err
	}
	c.addTemplates(c.chart)
	return c, c.chart.Validate()
}

func hasFile(files []*loader.BufferedFile, name string) bool {
	for _, f := range files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// chartFiles reads a chart's directory as Helm does: .helmignore is obeyed,
// and the limits of an archive hold.
func (s *scanner) chartFiles(dir string) ([]*loader.BufferedFile, error) {
	rules := ignore.Empty()
	if data, err := readLimited(s.fsys, path.Join(dir, ignore.HelmIgnore), maxFile); err == nil {
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rules.AddDefaults()
	var files []*loader.BufferedFile
	total := int64(0)
	err := fs.WalkDir(s.fsys, dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if err := s.ctx.Err(); err != nil {
			return err
		}
		rel := strings.TrimPrefix(name, dir+"/")
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rules.Ignore(rel, info):
			return fs.SkipDir
		case !info.Mode().IsRegular() || rules.Ignore(rel, info):
			return nil
		}
		data, err := readLimited(s.fsys, name, loader.MaxDecompressedFileSize)
		if err != nil {
			return fmt.Errorf("%s: %w", rel, err)
		}
		if total += int64(len(data)); total > maxChart {
			return fmt.Errorf("more than %d bytes in the chart", int64(maxChart))
		}
		files = append(files, &loader.BufferedFile{Name: rel, Data: bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))})
		return nil
	})
	return files, err
}

// values returns what the user sets over a chart's defaults: the overlay
// beside the chart, then the named overlays, then single settings.
func (s *scanner) values(c *source) (map[string]any, error) {
	out := map[string]any{}
	name := c.chart.Name()
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(c.path), ".tgz"), ".tar.gz")
	dir := path.Dir(c.path)
	seen := map[string]bool{}
	for _, f := range []string{path.Join(dir, base+".values.yaml"), path.Join(dir, name+".values.yaml"),
		path.Join(dir, name, "values.sealer.yaml"), path.Join(dir, base, "values.sealer.yaml")} {
		if seen[f] {
			continue
		}
		seen[f] = true
		data, err := readLimited(s.fsys, f, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = overlay(out, data)
		}
		if err != nil {
			return nil, fmt.Errorf("values %s: %w", f, err)
		}
	}
	for _, key := range chartNames(name, base) {
		if err := overlay(out, s.o.Values[key]); err != nil {
			return nil, fmt.Errorf("values for %s: %w", key, err)
		}
		for _, set := range s.o.Set {
			if rest, ok := strings.CutPrefix(set, key+"."); ok {
				if err := strvals.ParseInto(rest, out); err != nil {
					return nil, fmt.Errorf("set %s: %w", set, err)
				}
			}
		}
	}
	return out, nil
}

// chartNames are the names that a user may call a chart by.
func chartNames(name, base string) []string {
	if name == base {
		return []string{name}
	}
	return []string{base, name}
}

func overlay(dst map[string]any, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if _, err := parseYAML(data); err != nil {
		return err
	}
	v, err := chartutil.ReadValues(data)
	if err != nil {
		return err
	}
	merged := chartutil.CoalesceTables(v.AsMap(), dst)
	clear(dst)
	for k, v := range merged {
		dst[k] = v
	}
	return nil
}

// unknownCharts warns of settings for a chart that is not there.
func (s *scanner) unknownCharts() {
	known := func(key string) bool {
		for _, c := range s.res.Charts {
			base := strings.TrimSuffix(strings.TrimSuffix(path.Base(c.Path), ".tgz"), ".tar.gz")
			if key == c.Name || key == base {
				return true
			}
		}
		return false
	}
	for key := range s.o.Values {
		if !known(key) {
			s.warn("values for %s: no chart of that name", key)
		}
	}
	for _, set := range s.o.Set {
		matched := false
		for i, c := range set {
			if c == '=' {
				break
			}
			matched = matched || c == '.' && known(set[:i])
		}
		if !matched {
			s.warn("set %s: want NAME.key=value with the name of a chart", set)
		}
	}
}

// chartNode returns a value as nodes, for the rules that read values; numbers
// are the texts that a template prints.
func chartNode(v any) *yaml.Node {
	switch v := v.(type) {
	case nil:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k}, chartNode(v[k]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, it := range v {
			n.Content = append(n.Content, chartNode(it))
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fmt.Sprint(v)}
}
