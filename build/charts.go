package build

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/chart"
)

var errOffline = errors.New("it needs the network, and the build is offline")

// fetchChart brings a chart of APP or COPY as a file NAME-VERSION.tgz.
func (b *builder) fetchChart(ctx context.Context, src string, in *kubefile.Copy) ([]input, error) {
	s, err := chart.Parse(src)
	if err != nil || b.checking || b.failing {
		return nil, err
	}
	f, err := b.chart(ctx, s)
	if err != nil {
		return nil, err
	}
	if sum := digest.FromBytes(f.Archive); in.Checksum != "" && sum.String() != in.Checksum {
		return nil, fmt.Errorf("its checksum is %s, not %s", sum, in.Checksum)
	}
	done, ok := b.fetched[s.String()]
	if !ok {
		if done, err = b.keepFile(ctx, f.File(), f.Archive); err != nil {
			return nil, err
		}
		b.fetched[s.String()] = done
	}
	return []input{done.input}, nil
}

// keepFile writes fetched bytes into a directory of their own.
func (b *builder) keepFile(ctx context.Context, name string, content []byte) (fetched, error) {
	temp, err := b.tempDir(ctx)
	if err != nil {
		return fetched{}, err
	}
	dir, err := os.MkdirTemp(temp, "fetch-")
	if err != nil {
		return fetched{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		return fetched{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fetched{}, err
	}
	b.closers = append(b.closers, root.Close)
	fi, err := root.Stat(name)
	if err != nil {
		return fetched{}, err
	}
	in := input{Source: kubefile.Source{Path: name, Name: name, Alone: true}, root: root, path: name, info: fi, remote: true}
	return fetched{input: in}, nil
}

// chart brings a chart: the version that the lock file says, else the one that
// Helm would take now. The build's instructions, platforms and discovery share
// it. Its name and version are those that the archive says itself.
func (b *builder) chart(ctx context.Context, s chart.Source) (*chart.Fetched, error) {
	if f := b.brought[s]; f != nil {
		return f, nil
	}
	most := cmp.Or(b.o.DownloadTime, maxDuration)
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took longer than %s", most))
	defer cancel()
	if b.fetcher == nil {
		b.fetcher = chart.NewFetcher(b.c)
	}
	known := b.knownCharts()
	pin, err := b.pinChart(ctx, s, known)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	f := &chart.Fetched{Source: s, Pin: pin}
	if f.Archive = b.cachedChart(pin.Digest); f.Archive == nil {
		if b.o.Offline {
			return nil, errOffline
		}
		b.step(fmt.Sprintf("fetch %s (%s)", s, pin.Version))
		if f, err = b.fetcher.Fetch(ctx, s, pin); err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
	}
	if err := imagelist.CheckArchive(f.Archive, s.Name, f.Pin.Version); err != nil {
		return nil, err
	}
	b.cacheChart(f)
	if known[s.String()] != f.Pin && !b.o.Locked {
		known[s.String()] = f.Pin
		b.keepJSON(b.knownChartsFile(), known)
	}
	b.brought[s] = f
	return f, nil
}

// pinChart chooses the version of a chart.
func (b *builder) pinChart(ctx context.Context, s chart.Source, known map[string]chart.Pin) (chart.Pin, error) {
	if b.o.Locked {
		l, ok := b.locked.Charts[s.String()]
		if !ok {
			return chart.Pin{}, incomplete(fmt.Errorf("the chart %w %s", ErrNotLocked, b.lockFile()))
		}
		return chart.Pin{Version: l.Version, Digest: l.Digest}, nil
	}
	if b.o.Offline {
		pin, ok := known[s.String()]
		if !ok {
			return pin, errOffline
		}
		return pin, nil
	}
	return b.fetcher.Resolve(ctx, s)
}

// knownChartsFile is the cache file with the versions that sources had.
func (b *builder) knownChartsFile() string { return filepath.Join(b.s.CacheDir(), "charts.json") }

// knownCharts are the versions that sources had in earlier builds, for a build
// without a network.
func (b *builder) knownCharts() map[string]chart.Pin {
	known := map[string]chart.Pin{}
	if content, err := os.ReadFile(b.knownChartsFile()); err == nil {
		if err := json.Unmarshal(content, &known); err != nil {
			b.log.Debug("the cache of charts cannot be read", "error", err)
		}
	}
	return known
}

// cachedChart returns the archive of an earlier build, or nil. A file of the
// cache is named by the digest of the pin and by its own.
func (b *builder) cachedChart(d digest.Digest) []byte {
	if d == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(b.s.CacheDir(), "charts", d.Encoded()+".*.tgz"))
	if err != nil || len(names) == 0 {
		return nil
	}
	content, err := os.ReadFile(names[0])
	if err != nil || !strings.HasSuffix(names[0], "."+digest.FromBytes(content).Encoded()+".tgz") {
		return nil
	}
	return content
}

// cacheChart keeps an archive for later builds. A cache that cannot be written is
// no fault.
func (b *builder) cacheChart(f *chart.Fetched) {
	name := filepath.Join(b.s.CacheDir(), "charts", f.Pin.Digest.Encoded()+"."+digest.FromBytes(f.Archive).Encoded()+".tgz")
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, f.Archive) {
		return
	}
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = replaceFile(name, f.Archive)
	}
	if err != nil {
		b.log.Debug("write the cache of charts", "error", err)
	}
}
