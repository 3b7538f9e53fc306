package imagelist

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
)

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

// A NoChartError is the fault of a value (Options.Values, Options.Set) for a chart
// that is not there.
type NoChartError struct {
	Name  string
	Known []string // the charts that are there, sorted
	want  string
}

// Error implements error.
func (e *NoChartError) Error() string {
	if len(e.Known) == 0 {
		return "no chart of that name" + e.want + ": there is none here"
	}
	return "no chart of that name" + e.want + ": here are " + strings.Join(e.Known, ", ")
}

// unknownCharts makes a fault of each setting for a chart that is not there:
// the chart that was meant would be rendered without it.
func (s *scanner) unknownCharts() {
	var names []string
	for _, c := range s.res.Charts {
		names = append(names, chartBase(c.Path))
	}
	slices.Sort(names)
	names = slices.Compact(names)
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
			s.fault(fault{file: "--values " + key, err: &NoChartError{Name: key, Known: names}, hard: true})
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
		if name, _, _ := strings.Cut(set, "."); !matched {
			s.fault(fault{file: "--set " + set, err: &NoChartError{Name: name, Known: names, want: ", want NAME.key=value"}, hard: true})
		}
	}
}
