package extend

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// Dirs are the directories of a rootfs that hold plugins: their documents
// (*.yaml, *.yml) and their programs (any other file that may be executed, and
// *.so).
func Dirs() []string { return []string{"plugins", "plugin"} }

// maxDocument is the largest plugin document, in bytes.
const maxDocument = 1 << 20

// A Set is the plugins and the plugins' programs of a rootfs.
type Set struct {
	Plugins  []spec.Plugin
	Programs []string // paths in the rootfs, sorted
	Warnings []string
}

// Load reads the plugins of a rootfs. A plugin that stands twice in the same
// words counts once; faults are those of spec.Parse and of names that stand for
// different plugins, all of them.
func Load(rootfs fs.FS) (Set, error) {
	var s Set
	var errs []error
	from := map[string]string{}
	for _, dir := range Dirs() {
		entries, err := fs.ReadDir(rootfs, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return s, fmt.Errorf("read plugins: %w", err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				return s, fmt.Errorf("read plugins: %w", err)
			}
			name := path.Join(dir, e.Name())
			switch {
			case !info.Mode().IsRegular():
			case isDocument(e.Name()):
				errs = append(errs, s.document(rootfs, name, info.Size(), from))
			case path.Ext(name) == ".so" || info.Mode()&0o111 != 0:
				s.Programs = append(s.Programs, name)
			}
		}
	}
	slices.Sort(s.Programs)
	return s, errors.Join(errs...)
}

func isDocument(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// document reads one file of plugins.
func (s *Set) document(rootfs fs.FS, name string, size int64, from map[string]string) error {
	if size > maxDocument {
		return fmt.Errorf("%s: larger than %d bytes", name, maxDocument)
	}
	text, err := fs.ReadFile(rootfs, name)
	if err != nil {
		return err
	}
	f, err := spec.Parse(name, text)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range f.Plugins {
		i := slices.IndexFunc(s.Plugins, func(o spec.Plugin) bool { return o.Name == p.Name })
		switch {
		case i < 0:
			from[p.Name] = name
			s.Plugins = append(s.Plugins, p)
		case s.Plugins[i] != p:
			errs = append(errs, fmt.Errorf("%s: another plugin is called %q in %s: give each its own name", name, p.Name, from[p.Name]))
		}
	}
	if len(f.Plugins) == 0 {
		s.Warnings = append(s.Warnings, name+": no document of kind Plugin in it")
	}
	return errors.Join(errs...)
}

// Over returns the plugins of a Clusterfile and the image's plugins whose names
// the Clusterfile does not use, sorted by name. They work in this order.
func Over(clusterfile, image []spec.Plugin) []spec.Plugin {
	out := slices.Clone(clusterfile)
	for _, p := range image {
		if !slices.ContainsFunc(clusterfile, func(c spec.Plugin) bool { return c.Name == p.Name }) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b spec.Plugin) int { return strings.Compare(a.Name, b.Name) })
	return out
}
