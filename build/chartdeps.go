package build

import (
	"archive/tar"
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/chart"
)

// maxAdditions bounds the bytes of all dependencies that one build adds to its
// charts, because each dependency is read into memory.
const maxAdditions = 512 << 20

// A chartAnswer records the answer that discovery got about a chart from
// elsewhere. A cached scan is valid while the answers are the same.
type chartAnswer struct {
	Source string
	Pin    chart.Pin
	Err    string // why there was none
}

// charts answers discovery's questions for charts from elsewhere; nil when it is
// not to ask. Every answer is appended to asked.
func (b *builder) charts(asked *[]chartAnswer) imagelist.Charts {
	if !b.o.FetchCharts || b.checking {
		return nil
	}
	return func(ctx context.Context, source string) (*imagelist.ChartArchive, error) {
		f, err := b.discovered(ctx, source)
		if err != nil {
			*asked = append(*asked, chartAnswer{Source: source, Err: err.Error()})
			return nil, err
		}
		*asked = append(*asked, chartAnswer{Source: source, Pin: f.Pin})
		return &imagelist.ChartArchive{File: f.File(), Version: f.Pin.Version, Data: f.Archive}, nil
	}
}

// discovered brings a chart that a file names.
func (b *builder) discovered(ctx context.Context, source string) (*chart.Fetched, error) {
	s, err := chart.Parse(source)
	if err != nil {
		return nil, err
	}
	return b.chart(ctx, s)
}

// stillTrue reports whether a scan that was told asked would be told the same now.
func (b *builder) stillTrue(ctx context.Context, asked []chartAnswer) bool {
	for _, a := range asked {
		f, err := b.discovered(ctx, a.Source)
		if err != nil && err.Error() != a.Err || err == nil && f.Pin != a.Pin {
			return false
		}
	}
	return true
}

// addToCharts puts a layer on top with what discovery rendered charts with and
// they do not hold themselves: what was rendered is what helm installs.
func (pb *platformBuild) addToCharts(ctx context.Context, additions []imagelist.Addition) error {
	if len(additions) == 0 {
		return nil
	}
	root, err := pb.b.s.Rootfs(pb.ids())
	if err != nil {
		return err
	}
	defer root.Close()
	var entries []entry
	var total int64
	file := func(name string, data []byte) error {
		if total += int64(len(data)); total > maxAdditions {
			return fmt.Errorf("the dependencies of charts have more than %d MiB", maxAdditions>>20)
		}
		entries = append(entries, entry{name: name, typ: tar.TypeReg, mode: 0o644, size: int64(len(data)), data: data})
		if parts := strings.SplitN(name, "/", 4); len(parts) == 4 && parts[0] == "application" {
			if app := pb.app(parts[2]); app != nil {
				app.Files = append(app.Files, name)
			}
		}
		return nil
	}
	for _, a := range additions {
		if a.Source != "" {
			f, err := pb.b.discovered(ctx, a.Source)
			if err == nil {
				err = file(a.Path, f.Archive)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", a.Source, err)
			}
			continue
		}
		err := fs.WalkDir(root, a.Dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			data, err := fs.ReadFile(root, name)
			if err != nil {
				return err
			}
			return file(a.Path+strings.TrimPrefix(name, a.Dir), data)
		})
		if err != nil {
			return fmt.Errorf("copy the chart %s: %w", a.Dir, err)
		}
	}
	entries = append(entries, parents(entries)...)
	if entries, err = arrange(entries); err != nil {
		return err
	}
	in := &kubefile.Copy{Sources: []string{"dependencies"}, Dest: "charts"}
	layer, err := pb.writeLayer(ctx, in, entries)
	if err != nil {
		return err
	}
	pb.push(layer, image.ConfigLayer{Type: "COPY", Value: fmt.Sprintf("dependencies of charts (%d)", len(additions))})
	return nil
}

// parents returns entries for the directories named charts that hold additions,
// which a chart need not have had.
func parents(entries []entry) (out []entry) {
	for _, e := range entries {
		for dir := path.Dir(e.name); dir != "."; dir = path.Dir(dir) {
			out = append(out, entry{name: dir, typ: tar.TypeDir, mode: 0o755})
		}
	}
	return out
}
