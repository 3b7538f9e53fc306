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
	fsys    fs.FS
	path    string // of the directory or the archive
	archive bool
	below   bool // it is one of the image below: nothing is put into it
	files   []*loader.BufferedFile
	chart   *chart.Chart // dependencies processed by the first rendering

	templates map[string]template // by the engine's name
	aliases   map[string]string   // of dependencies: the name they lie under
	lacks     map[string]error    // dependencies that could not be had, by their place
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
// and then renders one after the other. Of many charts only the first stay in
// memory between the two; the others are loaded again.
func (s *scanner) readCharts(paths []string) error {
	var sources []*source
	releases := s.starts()
	s.installedDirs(releases)
	defer s.dropUsedValues()
	given, kept := len(paths), 0
	for _, p := range slices.Sorted(maps.Keys(releases)) {
		if !slices.Contains(paths, p) {
			paths = append(paths, p) // of the base, or a dependency installed by itself
		}
	}
	for i, p := range paths {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		below, fsys := i >= given && s.o.Rootfs != nil, s.fsys
		if below {
			fsys = s.o.Rootfs
		}
		c, err := s.loadChart(fsys, p, below)
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
		s.definitions(c)
		for _, f := range c.files {
			kept += len(f.Data)
		}
		if kept > cmp.Or(s.keptCharts, maxKeptCharts) {
			*c = source{fsys: c.fsys, path: c.path, below: c.below}
		}
	}
	for _, c := range sources {
		if c.chart == nil {
			again, err := s.loadChart(c.fsys, c.path, c.below)
			if err != nil || again == nil {
				return fmt.Errorf("load chart %s: it changed while it was read: %w", c.path, cmp.Or(err, fs.ErrNotExist))
			}
			*c = *again
		}
		if err := s.renderReleases(c, releases[c.path]); err != nil {
			return err
		}
		*c = source{}
	}
	return s.ctx.Err()
}

// definitions notes the API versions that the CRDs of a chart bring.
func (s *scanner) definitions(c *source) {
	for _, crd := range c.chart.CRDObjects() {
		docs, _ := documents(crd.File.Data)
		for _, d := range docs {
			if text(d.node, "kind") == "CustomResourceDefinition" {
				s.definition(d.node)
			}
		}
	}
}

// loadChart returns nil without an error for an archive that is no chart and
// lies where other archives may lie too.
func (s *scanner) loadChart(fsys fs.FS, name string, below bool) (*source, error) {
	c := &source{fsys: fsys, path: name, archive: isArchive(name), below: below}
	var err error
	if c.archive {
		var data []byte
		if data, err = readLimited(fsys, name, maxChart); err != nil {
			return nil, err
		}
		c.files, err = loader.LoadArchiveFiles(bytes.NewReader(data))
		if err == nil && !hasFile(c.files, chartutil.ChartfileName) && s.areaOf(name) != charts {
			return nil, nil
		}
	} else {
		c.files, err = s.chartFiles(fsys, name)
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
	if err := s.remoteDependencies(c); err != nil {
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
func (s *scanner) chartFiles(fsys fs.FS, dir string) ([]*loader.BufferedFile, error) {
	rules := ignore.Empty()
	if data, err := readLimited(fsys, path.Join(dir, ignore.HelmIgnore), maxFile); err == nil {
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rules.AddDefaults()
	var files []*loader.BufferedFile
	total := int64(0)
	err := fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
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
		data, err := readLimited(fsys, name, loader.MaxDecompressedFileSize)
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

// values returns the values that lie over a chart's defaults: those of the
// start command, or without one the overlays beside the chart; then those of
// the options.
func (s *scanner) values(c *source, r release) (map[string]any, error) {
	out := map[string]any{}
	name, base := c.chart.Name(), chartBase(c.path)
	if r.plain {
		if err := c.overlays(out, s.usedValues); err != nil {
			return nil, err
		}
	} else if err := c.inside(r.inChart, out); err != nil {
		return nil, err
	} else if err := r.apply(s.rootfs(), out); err != nil {
		return nil, err
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

// inside puts values files of the chart itself over out.
func (c *source) inside(names []string, out map[string]any) error {
	for _, name := range names {
		i := slices.IndexFunc(c.files, func(f *loader.BufferedFile) bool { return f.Name == path.Clean(name) })
		if i < 0 {
			return fmt.Errorf("values %s: %w", name, fs.ErrNotExist)
		}
		if err := overlay(out, c.files[i].Data); err != nil {
			return fmt.Errorf("values %s: %w", name, err)
		}
	}
	return nil
}

// overlays puts the values files beside a chart over out, and notes them in used.
func (c *source) overlays(out map[string]any, used map[string]bool) error {
	name, base, dir := c.chart.Name(), chartBase(c.path), path.Dir(c.path)
	seen := map[string]bool{}
	for _, f := range []string{path.Join(dir, base+".values.yaml"), path.Join(dir, name+".values.yaml"),
		path.Join(dir, name, "values.sealer.yaml"), path.Join(dir, base, "values.sealer.yaml")} {
		if seen[f] {
			continue
		}
		seen[f] = true
		data, err := readLimited(c.fsys, f, maxFile)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = overlay(out, data)
		}
		if err != nil {
			return fmt.Errorf("values %s: %w", f, err)
		}
		used[f] = true
	}
	return nil
}

// chartBase is the name of a chart's directory, or of its archive without the
// ending.
func chartBase(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".tgz"), ".tar.gz")
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

// ErrNoChart is wrapped by the fault of a value (Options.Values, Options.Set)
// for a chart that is not there.
var ErrNoChart = errors.New("no chart of that name")

// unknownCharts makes a fault of each setting for a chart that is not there:
// the chart that was meant would be rendered without it.
func (s *scanner) unknownCharts() {
	var names []string
	for _, c := range s.res.Charts {
		names = append(names, chartBase(c.Path))
	}
	slices.Sort(names)
	there := "there is none here"
	if len(names) > 0 {
		there = "here are " + strings.Join(slices.Compact(names), ", ")
	}
	known := func(key string) bool {
		for _, c := range s.res.Charts {
			if key == c.Name || key == chartBase(c.Path) {
				return true
			}
		}
		return false
	}
	for _, key := range slices.Sorted(maps.Keys(s.o.Values)) {
		if !known(key) {
			s.fault(fault{file: "--values " + key, err: fmt.Errorf("%w: %s", ErrNoChart, there), hard: true})
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
			s.fault(fault{file: "--set " + set, err: fmt.Errorf("%w, want NAME.key=value: %s", ErrNoChart, there), hard: true})
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
