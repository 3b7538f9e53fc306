package imagelist

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// area says how much is read from a file, by where it lies.
type area int

const (
	other     area = iota // pod specs of Kubernetes objects
	charts                // charts, and pod specs of objects beside them
	manifests             // all rules
)

func (s *scanner) areaOf(name string) area {
	name = path.Join(s.o.Under, name) + "/"
	switch {
	case strings.HasPrefix(name, "manifests/"), strings.HasPrefix(name, "application/apps/"):
		return manifests
	case strings.HasPrefix(name, "charts/"):
		return charts
	}
	for name = path.Clean(name); len(s.applied) > 0 && name != "." && name != "/"; name = path.Dir(name) {
		if s.applied[name] {
			return manifests
		}
	}
	return other
}

// readFiles walks the rootfs once and reads it in a fixed order: lists and
// manifests first, since their CRDs are API versions that charts may ask for,
// then charts.
func (s *scanner) readFiles() error {
	var files, chartPaths []string
	releases := s.starts()
	roots := s.o.Paths
	if len(roots) == 0 {
		roots = []string{"."}
	}
	for _, root := range roots {
		err := fs.WalkDir(s.fsys, root, func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			if err := s.ctx.Err(); err != nil {
				return err
			}
			return s.sort(name, d, &files, &chartPaths)
		})
		if err != nil {
			return err
		}
	}
	for _, name := range files {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		s.readFile(name)
	}
	return s.readCharts(chartPaths, releases)
}

// sort puts an entry of the walk to the files or to the charts.
func (s *scanner) sort(name string, d fs.DirEntry, files, charts *[]string) error {
	outside := s.areaOf(name) == other
	switch {
	case d.IsDir() && s.o.Mode == ModeSealer && outside && name != "." && name != "application":
		return fs.SkipDir
	case d.IsDir() && s.o.Objects != nil && outside && !s.dirs[name]:
		return fs.SkipDir
	case d.IsDir() && isChart(s.fsys, name):
		*charts = append(*charts, name)
		return fs.SkipDir
	case d.IsDir() && isRegistryTree(name):
		return fs.SkipDir
	case !s.isFile(name, d, outside):
	case isArchive(name) && !outside:
		*charts = append(*charts, name)
	case s.o.Mode != ModeSealer || !outside:
		*files = append(*files, name)
	}
	return nil
}

// isFile reports whether a walk met a regular file, or in the directories made
// for manifests and charts a link to one.
func (s *scanner) isFile(name string, d fs.DirEntry, outside bool) bool {
	if d.Type()&fs.ModeSymlink != 0 && !outside {
		info, err := fs.Stat(s.fsys, name)
		if err == nil && info.IsDir() {
			s.addGap(unreadGap, Gap{File: name, Reason: "a link to a directory is not followed"})
		}
		return err == nil && info.Mode().IsRegular()
	}
	return d.Type().IsRegular()
}

// above returns the directories that files are in, the root, and that of the
// applications.
func above(files map[string]bool) map[string]bool {
	dirs := map[string]bool{".": true, "application": true}
	for name := range files {
		for dir := path.Dir(name); !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return dirs
}

// isRegistryTree reports whether a directory holds mirrored blobs, which are
// no manifests.
func isRegistryTree(name string) bool {
	return name == "registry" || strings.HasSuffix(name, "docker/registry/v2")
}

func isChart(fsys fs.FS, dir string) bool {
	info, err := fs.Stat(fsys, path.Join(dir, chartFile))
	return err == nil && info.Mode().IsRegular()
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".tgz") || strings.HasSuffix(name, ".tar.gz")
}

func (s *scanner) isImageList(name string) bool {
	name = path.Join(s.o.Under, name)
	ok, _ := path.Match("application/apps/*/imageList", name)
	return ok || name == "manifests/imageList"
}
