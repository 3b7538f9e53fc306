package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/imagelist"
	"github.com/clusterimage/sealer/redirect/kyverno"
)

// layerFacts are the files of a layer that are worth another look in the
// merged rootfs. They are kept for each layer, so that a build that changes one
// does not read the others.
type layerFacts struct {
	Objects  []string // hold Kubernetes objects, or may do so by their names
	Suspects []string // policies and scripts that Kyverno's review warns of
}

// facts joins the facts of layers, in order, each name once.
func (b *builder) facts(ctx context.Context, ids []digest.Digest) (all layerFacts, err error) {
	for _, id := range ids {
		file := b.cacheFile("layers", cacheKey("layer", b.program(), id))
		var one layerFacts
		content, err := os.ReadFile(file)
		if b.o.NoCache || err != nil || json.Unmarshal(content, &one) != nil {
			if one, err = readFacts(ctx, b.s.LayerDir(id)); err != nil {
				return all, err
			}
			b.keepJSON(file, one)
		}
		all.Objects = append(all.Objects, one.Objects...)
		all.Suspects = append(all.Suspects, one.Suspects...)
	}
	for _, names := range []*[]string{&all.Objects, &all.Suspects} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return all, nil
}

// readFacts reads all files of a layer, side by side.
func readFacts(ctx context.Context, dir string) (facts layerFacts, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return facts, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if imagelist.Telling(name) {
			facts.Objects = append(facts.Objects, name)
		}
		if e.Type().IsRegular() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return facts, err
	}
	var mu sync.Mutex
	var next atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			buf := make([]byte, 128<<10)
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				if err := ctx.Err(); err != nil {
					return err
				}
				object, suspect, err := look(root, names[i], buf)
				if err != nil {
					return err
				}
				mu.Lock()
				if object {
					facts.Objects = append(facts.Objects, names[i])
				}
				if suspect {
					facts.Suspects = append(facts.Suspects, names[i])
				}
				mu.Unlock()
			}
			return nil
		})
	}
	return facts, g.Wait()
}

// look reads one file of a layer. buf's first half holds a small file, so that
// it is read once; the second half is scratch for HasObjects.
func look(root *os.Root, name string, buf []byte) (object, suspect bool, err error) {
	f, err := root.Open(name)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	if !reviewed(name) {
		object, err = imagelist.HasObjects(f, buf)
		return object, false, err
	}
	content, buf := buf[:len(buf)/2], buf[len(buf)/2:]
	n, err := io.ReadFull(f, content)
	if content = content[:n]; err == nil {
		rest, err := io.ReadAll(io.LimitReader(f, kyverno.MaxManifest+1-int64(n))) // longer ones hold nothing that counts
		if err != nil {
			return false, false, err
		}
		content = slices.Concat(content, rest)
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, false, err
	}
	suspect = len(kyverno.Review(name, content[:min(len(content), kyverno.MaxManifest)])) > 0
	object, err = imagelist.HasObjects(bytes.NewReader(content), buf)
	return object, suspect, err
}

func reviewed(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ".sh"}, path.Ext(name))
}

// review returns warnings about files of the rootfs that are known not to work
// in a cluster: redirect policies and scripts that wait for them. A suspect
// that an upper layer removed or made good gives none.
func review(root fs.FS, suspects []string) (warnings []string, err error) {
	for _, name := range suspects {
		b, err := readUpTo(root, name, kyverno.MaxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("review the rootfs: %w", err)
		}
		for _, w := range kyverno.Review(name, b) {
			warnings = append(warnings, w.String())
		}
	}
	return warnings, nil
}

// readUpTo returns the first limit bytes of a file.
func readUpTo(root fs.FS, name string, limit int64) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
