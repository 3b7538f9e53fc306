package imagelist

import (
	"cmp"
	"io/fs"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The keys under which objects and settings of many programs name a chart that
// they install: Crossplane's and Sveltos' objects, k0s, helmfile, Fleet,
// Terraform's helm_release.
var (
	chartKeys      = []string{"chart", "chartName", "chartname"}
	repositoryKeys = []string{"repository", "repo", "repoURL", "repoUrl", "repositoryURL", "repositoryUrl", "url"}
	versionKeys    = []string{"version", "chartVersion", "targetRevision"}
)

func firstText(n *yaml.Node, keys []string) (string, *yaml.Node) {
	for _, k := range keys {
		if v := get(n, k); isScalar(v) && v.Value != "" {
			return v.Value, v
		}
	}
	return "", nil
}

// noteHelmRepo keeps the URL of a repository that commands or settings name.
func (s *scanner) noteHelmRepo(name, url string) {
	if s.helmRepos == nil {
		s.helmRepos = map[string]string{}
	}
	if old, ok := s.helmRepos[name]; ok && old != url {
		url = "" // two machines differ
	}
	s.helmRepos[name] = url
}

// noteHelmRepos keeps the repositories of charts that a document lists: those of
// helmfile and of k0s, and those of chart-testing (name=URL).
func (s *scanner) noteHelmRepos(n *yaml.Node) {
	for _, it := range append(items(get(n, "repositories")), items(get(n, "spec", "extensions", "helm", "repositories"))...) {
		url := text(it, "url")
		if text(it, "oci") == "true" && !strings.Contains(url, "://") {
			url = "oci://" + url
		}
		if name := text(it, "name"); name != "" && strings.Contains(url, "://") {
			s.noteHelmRepo(name, url)
		}
	}
	for _, it := range items(get(n, "chart-repos")) {
		if name, url, ok := strings.Cut(it.Value, "="); ok {
			s.noteHelmRepo(name, url)
		}
	}
}

// chartReference notes the chart from elsewhere that a map names. The map has the
// chart and a repository, or a chart of a repository known by its name.
func (s *scanner) chartReference(p place, n *yaml.Node) {
	if installers[p.kind] || p.embedded > 0 || p.limit == Optional {
		return
	}
	chart, node := firstText(n, chartKeys)
	repo, _ := firstText(n, repositoryKeys)
	if chart == "" && strings.HasPrefix(repo, "oci://") && get(n, "releaseName") != nil {
		chart, node = repo, get(n, "releaseName")
	}
	name, rest, two := strings.Cut(chart, "/")
	_, known := s.helmRepos[name]
	switch {
	case strings.HasPrefix(chart, "."):
		s.localChart(p, n, node, chart)
		return
	case chart == "", strings.HasPrefix(chart, "/"), isPlaceholder(chart) && !strings.HasPrefix(chart, "oci://"):
		return
	case strings.HasPrefix(chart, "oci://"):
		i := strings.LastIndexByte(chart, '/')
		repo, chart = chart[:i], chart[i+1:]
	case strings.Contains(repo, "://"):
	case two && (known || p.foreign && get(n, "name") != nil && !strings.Contains(rest, "/")):
		repo, chart = s.helmRepos[name], rest
	default:
		return
	}
	version, _ := firstText(n, versionKeys)
	in := install{p: p, n: n, wanted: &wantedChart{}}
	in.p.object = cmp.Or(p.object, "chart "+chart)
	in.line = node.Line
	if repo != "" && !isPlaceholder(repo) && !isPlaceholder(version) {
		in.wanted.source, in.err = chartSource(repo, chart, version)
	}
	r := &in.wanted.release
	r.name, r.namespace = cmp.Or(text(n, "releaseName"), text(n, "name"), releaseName), cmp.Or(text(n, "namespace"), releaseNamespace)
	for _, key := range []string{"values", "valuesContent", "valuesTemplate", "valuesObject", "set"} {
		s.referenceValues(r, p, key, get(n, key))
	}
	s.installs = append(s.installs, in)
}

// localChart tells of a chart that the settings of a program install from a directory
// that is not here.
func (s *scanner) localChart(p place, n, at *yaml.Node, chart string) {
	if !p.foreign || get(n, "name") == nil && get(n, "releaseName") == nil && get(n, "values") == nil {
		return
	}
	for _, dir := range []string{path.Dir(p.file), ".", "charts"} {
		for _, name := range []string{path.Join(dir, chart), path.Join(dir, path.Base(chart))} {
			if !fs.ValidPath(name) {
				continue
			}
			if info, err := fs.Stat(s.fsys, name); err == nil && (isChart(s.fsys, name) || info.Mode().IsRegular()) {
				return
			}
		}
	}
	s.gap(p, spot{line: at.Line, written: chart}, localChartGap, "")
}

var localChartGap = cause{elsewhereGap.grade, elsewhereGap.rule, "a chart in a directory that is not here; its images are not known",
	"put the chart into charts/, or add its images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// referenceValues adds the values that stand beside the reference of a chart: a
// map, a text, or a list of maps, texts and names of files.
func (s *scanner) referenceValues(r *release, p place, key string, n *yaml.Node) {
	switch {
	case key == "set":
		for _, it := range append(items(n), n) {
			if name := text(it, "name"); name != "" {
				r.sets = append(r.sets, setting{"--set", name + "=" + strings.ReplaceAll(text(it, "value"), ",", `\,`)})
			}
		}
	case isSeq(n):
		for _, it := range items(n) {
			s.referenceValues(r, p, key, it)
		}
	case isScalar(n) && !strings.Contains(n.Value, "\n") && !strings.Contains(n.Value, ": "):
		if name, ok := s.repositoryFile(n.Value, path.Dir(p.file)); ok {
			r.files = append(r.files, name)
		}
	case n != nil && !isPlaceholderText(n):
		_ = r.give(n) // an unreadable one is found by the rules of values
	}
}

func isPlaceholderText(n *yaml.Node) bool { return isScalar(n) && strings.Contains(n.Value, "{{") }
