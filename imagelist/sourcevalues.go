package imagelist

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chartutil"
)

// A config is a ConfigMap or a Secret of the files, of which others take values.
type config struct {
	data, plain *yaml.Node // data of a Secret is encoded, plain is not
	secret      bool
}

// maxConfigs bounds how many ConfigMaps and Secrets are kept.
const maxConfigs = 10_000

// noteConfig keeps a ConfigMap or a Secret for the objects that take values from
// it.
func (s *scanner) noteConfig(p place, n *yaml.Node) {
	if p.group != "" || p.kind != "ConfigMap" && p.kind != "Secret" || p.rendered || p.embedded > 0 {
		return
	}
	s.addConfig(p.kind, text(n, "metadata", "namespace"), text(n, "metadata", "name"), config{get(n, "data"), get(n, "stringData"), p.kind == "Secret"})
}

func (s *scanner) addConfig(kind, namespace, name string, c config) {
	if s.configs == nil {
		s.configs = map[string]config{}
	}
	if len(s.configs) < maxConfigs {
		s.configs[sourceKey(kind, namespace, name)] = c
		if namespace != "" { // a kustomization may set the namespace of those that refer to it
			if _, ok := s.configs[sourceKey(kind, "", name)]; !ok {
				s.configs[sourceKey(kind, "", name)] = c
			}
		}
	}
}

// configData is the content of a ConfigMap or a Secret, nil where there is none.
func (s *scanner) configData(key string) map[string]string {
	c, ok := s.configs[key]
	if !ok {
		return nil
	}
	out := map[string]string{}
	for _, e := range entries(c.data) {
		if !isScalar(e.value) {
			continue
		}
		out[e.key] = e.value.Value
		if c.secret {
			plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(e.value.Value))
			if err != nil {
				delete(out, e.key)
				continue
			}
			out[e.key] = string(plain)
		}
	}
	for _, e := range entries(c.plain) {
		if isScalar(e.value) {
			out[e.key] = e.value.Value
		}
	}
	return out
}

// valuesFrom adds the values that an object takes from ConfigMaps and Secrets,
// as Flux's HelmRelease names them. One that is not in the files is an error.
func (s *scanner) valuesFrom(r *release, list []*yaml.Node, namespace string) error {
	for _, it := range list {
		kind, name := text(it, "kind"), text(it, "name")
		data := s.configData(sourceKey(kind, cmp.Or(text(it, "namespace"), namespace), name))
		if data == nil {
			data = s.configData(sourceKey(kind, "", name))
		}
		value, ok := data[cmp.Or(text(it, "valuesKey"), "values.yaml")]
		switch at := text(it, "targetPath"); {
		case !ok && text(it, "optional") == "true":
		case !ok:
			return fmt.Errorf("it takes values from the %s %s, which is not in these files", kind, name)
		case at != "":
			r.sets = append(r.sets, setting{"--set", at + "=" + strings.TrimSpace(value)})
		default:
			if err := r.give(newText(value, it.Line)); err != nil {
				return err
			}
		}
	}
	return nil
}

// repositoryFile returns where a file of a repository lies here: beside a chart's
// directory, or at the root.
func (s *scanner) repositoryFile(name, dir string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, "$"); ok { // of another source of the Application
		_, name, _ = strings.Cut(rest, "/")
		dir = "."
	}
	for _, at := range []string{path.Join(dir, name), path.Clean(name)} {
		if at = strings.TrimPrefix(at, "/"); at != "." && !strings.HasPrefix(at, "../") && s.exists(at) {
			return at, true
		}
	}
	return "", false
}

// valueFiles adds the values files of an object whose source is a directory here.
// missing says that a file may be missing.
func (s *scanner) valueFiles(r *release, list []*yaml.Node, dir string, missing bool) error {
	for _, it := range list {
		name, ok := s.repositoryFile(it.Value, dir)
		switch {
		case ok:
			r.files = append(r.files, name)
		case !missing:
			return fmt.Errorf("it takes values from the file %s, which is not in these files", it.Value)
		}
	}
	return nil
}

// installedDirs adds to releases the charts here that objects install, with the
// values that these give: nothing installs the charts with their defaults.
func (s *scanner) installedDirs(releases map[string][]release) {
	s.installed, s.usedValues = map[string]bool{}, map[string]bool{}
	for _, in := range s.installs {
		wanted, _, err := s.wantedCharts(in)
		if err != nil {
			continue // follow tells
		}
		for _, w := range wanted {
			dir := w.localDir()
			if w.dir == "" || !s.exists(dir) || s.areaOf(dir) == other || !isChart(s.fsys, dir) {
				continue
			}
			s.installed[dir] = true
			releases[dir] = append(releases[dir], w.release)
		}
	}
	for _, list := range releases {
		for _, r := range list {
			for _, name := range slices.Concat(r.files, r.read) {
				s.usedValues[name] = true
			}
		}
	}
}

// localDir is the directory here of one of a repository.
func (w wantedChart) localDir() string {
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(w.dir, "./"), "/"))
}

// dropUsedValues rejects the images that values files spell out which charts were
// rendered with: the renderings tell which of them are used.
func (s *scanner) dropUsedValues() {
	s.res.Found = slices.DeleteFunc(s.res.Found, func(f Finding) bool {
		if !s.usedValues[f.File] {
			return false
		}
		f.Reason = "values that a chart is rendered with"
		s.res.Rejected = append(s.res.Rejected, f)
		return true
	})
}

// pairsOf returns the keys and values of a map.
func pairsOf(n *yaml.Node) (out [][2]*yaml.Node) {
	if !isMap(n) {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isScalar(n.Content[i]) && isScalar(n.Content[i+1]) {
			out = append(out, [2]*yaml.Node{n.Content[i], n.Content[i+1]})
		}
	}
	return out
}

// give adds values that stand in an object, as a map or as YAML in a string.
func (r *release) give(list ...*yaml.Node) error {
	for _, n := range list {
		if n == nil {
			continue
		}
		data := []byte(n.Value)
		if !isScalar(n) {
			var err error
			if data, err = yaml.Marshal(n); err != nil {
				return fmt.Errorf("values: %w", err)
			}
		}
		v, err := chartutil.ReadValues(data)
		if err != nil {
			return fmt.Errorf("values: %w", err)
		}
		r.given = chartutil.CoalesceTables(v.AsMap(), r.given)
	}
	return nil
}
