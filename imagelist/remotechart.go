package imagelist

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Charts brings a chart from elsewhere. source has the form of a Kubefile:
// oci://REGISTRY/REPOSITORY:VERSION or repo+https://HOST/PATH#NAME@VERSION, where
// a version may be a range. The archive is one that CheckArchive takes.
type Charts func(ctx context.Context, source string) (*ChartArchive, error)

// A ChartArchive is a chart from elsewhere.
type ChartArchive struct {
	File    string // NAME-VERSION.tgz
	Version string
	Data    []byte
}

// An Addition is a dependency that a chart declares and does not carry, and that
// it was rendered with: helm refuses to install the chart without it.
type Addition struct {
	Path string // in the rootfs: of the archive, or of a directory
	// Source is where the archive is fetched from, as Charts takes it; "" for a
	// directory.
	Source string
	// Dir is the directory of the rootfs that the dependency is copied from.
	Dir string
}

// CheckArchive returns nil when data is the archive of the chart name in that
// version, within Helm's limits.
func CheckArchive(data []byte, name, version string) error {
	ch, err := loader.LoadArchive(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	if err := ch.Validate(); err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	got, err := semver.NewVersion(ch.Metadata.Version)
	if want, wantErr := semver.NewVersion(version); ch.Name() != name || err != nil || wantErr != nil || !got.Equal(want) {
		return fmt.Errorf("the archive holds the chart %.100s %.100s, not %s %s", ch.Name(), ch.Metadata.Version, name, version)
	}
	return nil
}

// remoteDependencies brings the dependencies that a chart's directory declares
// and does not carry, and those of the charts in it, as helm dependency build
// would. Those that cannot be had are noted in c.lacks.
func (s *scanner) remoteDependencies(c *source) error {
	if c.archive || c.below || s.o.Charts == nil {
		return nil // nothing can be put into it
	}
	c.lacks = map[string]error{}
	before := len(c.files)
	if err := s.addRemote(c, c.chart, "", 0); err != nil || len(c.files) == before {
		return err
	}
	var err error
	c.chart, err = loader.LoadFiles(c.files)
	return err
}

// addRemote adds the archives of the dependencies of ch, whose directory is at
// within the chart.
func (s *scanner) addRemote(c *source, ch *chart.Chart, at string, depth int) error {
	carried, added := map[string]bool{}, map[string]bool{}
	for _, d := range ch.Dependencies() {
		carried[d.Name()] = true
	}
	for _, d := range ch.Metadata.Dependencies {
		if d == nil || carried[d.Name] {
			continue
		}
		from, err := s.dependencySource(d, ch.Lock)
		if err == nil && added[from] {
			continue // under another alias
		}
		var a *ChartArchive
		if err == nil {
			if a, err = s.o.Charts(s.ctx, from); err != nil {
				err = fmt.Errorf("%s: %w", from, err)
			}
		}
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
		if err != nil {
			c.lacks[path.Join(at, "charts", d.Name)] = err
			continue
		}
		added[from] = true
		name := path.Join(at, "charts", a.File)
		c.files = append(c.files, &loader.BufferedFile{Name: name, Data: a.Data})
		s.addition(Addition{Path: path.Join(c.path, name), Source: from})
	}
	for _, d := range ch.Dependencies() {
		if under := path.Join(at, "charts", d.Name()); depth < maxLocal && hasFile(c.files, path.Join(under, chartutil.ChartfileName)) {
			if err := s.addRemote(c, d, under, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// addition notes what a chart is to hold, once.
func (s *scanner) addition(a Addition) {
	if !slices.Contains(s.res.Additions, a) {
		s.res.Additions = append(s.res.Additions, a)
	}
}

// dependencySource is where a dependency is fetched from: in the version of
// Chart.lock, where that fits, else in the newest that Chart.yaml allows.
func (s *scanner) dependencySource(d *chart.Dependency, lock *chart.Lock) (string, error) {
	version := d.Version
	if lock != nil {
		for _, l := range lock.Dependencies {
			if l != nil && l.Name == d.Name && l.Repository == d.Repository && (version == "" || chartutil.IsCompatibleRange(version, l.Version)) {
				version = l.Version
				break
			}
		}
	}
	return chartSource(s.repositoryURL(d.Repository), d.Name, version)
}

// repositoryURL is the URL of a repository that a chart calls by a name (@NAME,
// alias:NAME), where the files tell it: helm repo add in a script, a helmfile.
func (s *scanner) repositoryURL(repository string) string {
	name, ok := strings.CutPrefix(repository, "@")
	if !ok {
		if name, ok = strings.CutPrefix(repository, "alias:"); !ok {
			return repository
		}
	}
	return cmp.Or(s.helmRepos[name], repository)
}

// chartSource is the form that Charts takes.
func chartSource(repository, name, version string) (string, error) {
	version = strings.ReplaceAll(strings.TrimSpace(version), " ", "%20")
	repository = strings.TrimSuffix(repository, "/")
	switch {
	case strings.HasPrefix(repository, "oci://"):
		if version != "" {
			version = ":" + version
		}
		return repository + "/" + name + version, nil
	case strings.HasPrefix(repository, "https://"), strings.HasPrefix(repository, "http://"):
		if version != "" {
			version = "@" + version
		}
		return "repo+" + repository + "#" + name + version, nil
	case strings.HasPrefix(repository, "@"), strings.HasPrefix(repository, "alias:"):
		return "", fmt.Errorf("its repository %s is a name that only one machine's helm knows: write the URL, or \"helm repo add\" into a script", repository)
	case repository == "":
		return "", fmt.Errorf("it has no repository")
	}
	return "", fmt.Errorf("its repository is %s", repository)
}
