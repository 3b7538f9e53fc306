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
// memory between the two; the others are loaded again. releases are how start
// commands install them.
func (s *scanner) readCharts(paths []string, releases map[string][]release) error {
	var sources []*source
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
		if s.skim(fsys, p) {
			sources = append(sources, &source{fsys: fsys, path: p, below: below})
			continue
		}
		c, err := s.loadChart(fsys, p, below)
		if err != nil {
			s.notLoaded(p, err)
			continue
		}
		if c == nil {
			continue
		}
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
				s.notLoaded(c.path, cmp.Or(err, fs.ErrNotExist))
				continue
			}
			*c = *again
		}
		s.res.Files += len(c.files)
		if err := s.renderReleases(c, releases[c.path]); err != nil {
			return err
		}
		*c = source{}
	}
	return s.ctx.Err()
}

func (s *scanner) notLoaded(name string, err error) {
	s.fault(fault{file: name, err: fmt.Errorf("load chart: %w", err)})
	s.res.Charts = append(s.res.Charts, Chart{Path: name, Error: err.Error()})
}

// skim notes the API versions that the CRDs of a chart's directory bring without
// loading the chart, and reports whether that was all: a chart with archives in it,
// or with dependencies that are to be added, is loaded.
func (s *scanner) skim(fsys fs.FS, dir string) bool {
	var definitions []string
	err := fs.WalkDir(fsys, dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "templates" || d.Name() == "files"):
			return fs.SkipDir
		case d.Type().IsRegular() && isArchive(name), d.Name() == chartFile && !carriesAll(fsys, name), d.Name() == "requirements.yaml":
			return errSkim
		case d.Type().IsRegular() && path.Base(path.Dir(name)) == "crds", d.Type().IsRegular() && strings.Contains(name[len(dir):], "/crds/"):
			definitions = append(definitions, name)
		}
		return s.ctx.Err()
	})
	if err != nil {
		return false
	}
	for _, name := range definitions {
		data, err := readLimited(fsys, name, maxChart)
		if err != nil {
			return false
		}
		if bytes.Contains(data, []byte("CustomResourceDefinition")) {
			s.definitionsIn(data)
		}
	}
	return true
}

var errSkim = errors.New("it must be loaded")

// carriesAll reports whether the charts that a Chart.yaml depends on lie in the
// directory charts beside it.
func carriesAll(fsys fs.FS, name string) bool {
	data, err := readLimited(fsys, name, maxDocument)
	if err != nil {
		return false
	}
	n, err := parseYAML(data)
	if err != nil {
		return false
	}
	for _, d := range items(get(n, "dependencies")) {
		if in := path.Join(path.Dir(name), "charts", text(d, "name")); !fs.ValidPath(in) || !isChart(fsys, in) {
			return false
		}
	}
	return true
}

// definitions notes the API versions that the CRDs of a chart bring.
func (s *scanner) definitions(c *source) {
	for _, crd := range c.chart.CRDObjects() {
		s.definitionsIn(crd.File.Data)
	}
}

func (s *scanner) definitionsIn(data []byte) {
	docs, _ := documents(data)
	for _, d := range docs {
		if text(d.node, "kind") == "CustomResourceDefinition" {
			s.definition(d.node)
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
