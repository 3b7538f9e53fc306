package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/registry/chart"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// Find returns discovery's result for the files that the Kubefile adds, for the
// first of the platforms: the images that Build with the same options would
// mirror. The steps run as in a build, so RUN's files are seen, but no image is
// mirrored or made. The result is not nil if the error comes from discovery
// alone.
func Find(ctx context.Context, s *store.Store, c *remote.Client, o Options) (_ *imagelist.Result, err error) {
	b, err := newBuilder(s, c, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.o.Platforms = b.o.Platforms[:1]
	builds, err := b.plan(ctx)
	if err != nil {
		return nil, err
	}
	pb := builds[0]
	if err := pb.assemble(ctx); err != nil {
		return nil, err
	}
	lists, err := b.lists()
	if err != nil {
		return nil, err
	}
	return pb.discover(ctx, lists)
}

// FindIn returns discovery's result for files that no Kubefile adds: a rootfs
// (with charts/, manifests/ or application/), a directory of charts and
// manifests, a chart, or one manifest. As in a build, imageListWithAuth.yaml
// and .sealerimages at its root are obeyed. Charts from elsewhere are asked for
// through charts, which may be nil.
func FindIn(ctx context.Context, path string, o Options, charts imagelist.Charts) (*imagelist.Result, error) {
	lists, err := Lists(o)
	if err != nil {
		return nil, err
	}
	lists.Charts = charts
	lists.PrivateRegistry = o.PrivateRegistry
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	dir := path
	if !info.IsDir() || isFile(filepath.Join(path, "Chart.yaml")) {
		dir = filepath.Dir(path)
		lists.Paths, lists.Under = []string{filepath.Base(path)}, "manifests"
	} else if !isRootfs(dir) {
		lists.Under = "manifests"
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("find images: %w", err)
	}
	defer root.Close()
	if rules, err := root.ReadFile(rulesName); err == nil && lists.Paths == nil {
		lists.Rules = rules
	}
	return imagelist.Scan(ctx, root.FS(), lists)
}

func isRootfs(dir string) bool {
	return slices.ContainsFunc([]string{"charts", "manifests", "application"}, func(name string) bool {
		fi, err := os.Stat(filepath.Join(dir, name))
		return err == nil && fi.IsDir()
	})
}

func isFile(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().IsRegular()
}

// Lists returns discovery's options, with the content of the files that o
// names.
func Lists(o Options) (imagelist.Options, error) {
	lists := imagelist.Options{Mode: o.Scan, KubeVersion: o.KubeVersion, Logger: o.Logger,
		Values: o.ChartValues, Set: o.ChartSet, ChartProbe: o.ChartProbe, Lenient: o.ScanLenient, Strict: o.Strict}
	var errs []error
	read := func(names []string) (out []imagelist.List) {
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				errs = append(errs, fmt.Errorf("read image list: %w", err))
				continue
			}
			out = append(out, imagelist.List{Name: name, Content: content})
		}
		return out
	}
	lists.Lists, lists.AuthLists, lists.Ignored = read(o.ImageLists), read(o.AuthLists), read(o.IgnoredLists)
	return lists, errors.Join(errs...)
}

// Charts returns a source of charts from elsewhere for a scan without a build. It
// keeps them in the cache of s.
func Charts(s *store.Store, c *remote.Client, o Options) imagelist.Charts {
	b := &builder{s: s, c: c, o: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), brought: map[chart.Source]*chart.Fetched{}}
	return b.charts(new([]chartAnswer))
}
