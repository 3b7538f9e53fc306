package imagelist

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// maxLocal bounds how deep charts beside a chart are followed, and how many
// files they may add.
const (
	maxLocal      = 8
	maxLocalFiles = 10_000
)

// localDependencies adds the dependencies that a chart's directory declares by
// a path to a chart beside it (repository: file://../name) and does not carry,
// as helm dependency build would.
func (s *scanner) localDependencies(c *source) error {
	if c.archive {
		return nil
	}
	before := len(c.files)
	c.local = map[string]string{}
	if err := s.addLocal(c, c.chart, c.path, "", 0); err != nil || len(c.files) == before {
		return err
	}
	var err error
	c.chart, err = loader.LoadFiles(c.files)
	return err
}

// addLocal adds the files of the local dependencies of ch, which lies at dir
// and is to stand at the path at within the chart.
func (s *scanner) addLocal(c *source, ch *chart.Chart, dir, at string, depth int) error {
	carried := map[string]bool{}
	for _, d := range ch.Dependencies() {
		carried[d.Name()] = true
	}
	for _, d := range ch.Metadata.Dependencies {
		if d == nil || carried[d.Name] || depth >= maxLocal {
			continue
		}
		rel, ok := strings.CutPrefix(d.Repository, "file://")
		from := path.Join(dir, rel)
		if !ok || path.IsAbs(rel) || !fs.ValidPath(from) || from == "." || !isChart(c.fsys, from) || strings.HasPrefix(c.path+"/", from+"/") {
			continue
		}
		carried[d.Name] = true // another alias renders the same files
		files, err := s.chartFiles(c.fsys, from)
		if err != nil {
			return err
		}
		if len(c.files)+len(files) > maxLocalFiles {
			return fmt.Errorf("dependency %s: more than %d files in the charts beside it", d.Name, maxLocalFiles)
		}
		under, err := loader.LoadFiles(files)
		if err != nil {
			return err
		}
		to := path.Join(at, "charts", d.Name)
		if !c.below && from != path.Join(c.path, to) {
			s.addition(Addition{Path: path.Join(c.path, to), Dir: from})
		}
		c.local[to] = from
		for _, f := range files {
			c.files = append(c.files, &loader.BufferedFile{Name: path.Join(to, f.Name), Data: f.Data})
		}
		if err := s.addLocal(c, under, from, to, depth+1); err != nil {
			return err
		}
	}
	return nil
}
