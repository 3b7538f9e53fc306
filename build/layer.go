package build

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/store"
)

// firstHash is how much unhashed content is read twice, once to see whether the
// layer is known and once to write it, before it is written at once. Where no
// layer has files of these names and sizes none is read twice.
const firstHash = 64 << 20

// writeLayer makes the rootfs layer of entries, or returns the one that equal
// entries made before: its key is the digest of all that it would write.
func (t *target) writeLayer(ctx context.Context, in kubefile.Instruction, entries []entry) (store.Layer, error) {
	b := t.b
	unknown, total := b.recall(entries)
	if unknown == 0 || len(b.shared) > 0 || unknown <= max(firstHash, total/8) && b.hasShape(entries) {
		if err := b.hash(ctx, entries); err != nil {
			return store.Layer{}, err
		}
		if r, ok := b.lookup(ctx, b.entriesKey(entries)); ok {
			return r.Layer, nil
		}
	}
	begun := time.Now()
	before, like := t.before(in, total)
	layer, err := b.s.WriteLayer(ctx, store.LayerOptions{Compression: b.o.Compression, Like: like}, func(w io.Writer) error {
		return writeTar(contextWriter{ctx, w}, entries, b.when, func(e *entry, sum []byte) {
			e.sum = sum
			b.learn(e, begun)
		})
	})
	if err != nil {
		return layer, err
	}
	if err := b.hash(ctx, entries); err != nil { // inline content; all files are hashed now
		return layer, err
	}
	b.keep(b.entriesKey(entries), stepRecord{Layer: layer})
	b.keepJSON(b.shapeFile(entries), true)
	if before != "" {
		b.keepJSON(before, layer)
	}
	return layer, nil
}

// worthLike is the size of a layer, in bytes, from which on another is looked
// for that may have equal parts.
const worthLike = 1 << 20

// before returns the file of the cache that tells what an instruction made in an
// earlier build of this context, and the layer that it tells. Another build of
// sealer may compress otherwise.
func (t *target) before(in kubefile.Instruction, size int64) (file string, like store.Layer) {
	b := t.b
	if size < worthLike {
		return "", like
	}
	dir, err := filepath.Abs(b.o.Context)
	if err != nil {
		return "", like
	}
	file = b.cacheFile("before", cacheKey("before", b.program(), dir, platform.String(t.platform), b.o.Compression, in.Keyword(), in.Text()))
	if content, err := os.ReadFile(file); b.o.NoCache || err != nil || json.Unmarshal(content, &like) != nil {
		return file, store.Layer{}
	}
	return file, like
}

// A contextWriter ends a long write when the build is interrupted.
type contextWriter struct {
	ctx context.Context
	io.Writer
}

// Write implements io.Writer.
func (w contextWriter) Write(p []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.Writer.Write(p)
}

// AvailableBuffer is that of the writer below; see store.WriteLayer.
func (w contextWriter) AvailableBuffer() []byte {
	if below, ok := w.Writer.(interface{ AvailableBuffer() []byte }); ok {
		return below.AvailableBuffer()
	}
	return nil
}

// recall fills in the hashes of the files that have not changed since an
// earlier build, and returns the bytes that are left, and all.
func (b *builder) recall(entries []entry) (unknown, total int64) {
	for i := range entries {
		e := &entries[i]
		if e.typ != tar.TypeReg {
			continue
		}
		total += e.size
		if e.sum == nil && e.root == b.ctx.root {
			e.sum, _ = b.stats.sum(e)
		}
		if e.sum == nil {
			unknown += e.size
		}
	}
	return unknown, total
}

// learn keeps the hash of a file of the context for later builds.
func (b *builder) learn(e *entry, begun time.Time) {
	if e.root == b.ctx.root {
		b.stats.put(e, e.sum, begun)
	}
}

// hash reads the files whose hash is not known yet.
func (b *builder) hash(ctx context.Context, entries []entry) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range entries {
		e := &entries[i]
		if e.typ != tar.TypeReg || e.sum != nil {
			continue
		}
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			begun := time.Now()
			sum, err := hashFile(e)
			if err != nil {
				return err
			}
			e.sum = sum
			b.learn(e, begun)
			return nil
		})
	}
	return g.Wait()
}

// shapeFile is the file of the cache that tells that there is a layer of
// entries, but for what is in the files.
func (b *builder) shapeFile(entries []entry) string {
	shape := slices.Clone(entries)
	for i := range shape {
		shape[i].sum = nil
	}
	return b.cacheFile("shapes", b.entriesKey(shape))
}

func (b *builder) hasShape(entries []entry) bool {
	_, err := os.Stat(b.shapeFile(entries))
	return err == nil && !b.o.NoCache
}

// entriesKey is the digest of what a layer of entries would hold.
func (b *builder) entriesKey(entries []entry) string {
	h := newFileHash()
	line := fmt.Appendf(nil, "files %s %q %d\n", layerMaker(), b.o.Compression, b.when.Unix())
	for i := range entries {
		e := &entries[i]
		line = appendWord(appendWord(line, e.name), e.link)
		line = append(binary.AppendUvarint(line, uint64(len(e.sum))), e.sum...)
		line = binary.AppendUvarint(line, uint64(len(e.xattrs)))
		if len(e.xattrs) > 0 {
			for _, name := range sortedKeys(e.xattrs) {
				line = appendWord(appendWord(line, name), e.xattrs[name])
			}
		}
		for _, n := range []int64{int64(e.typ), e.mode, int64(e.uid), int64(e.gid), e.size} {
			line = binary.AppendVarint(line, n)
		}
		if len(line) > 32<<10 || i == len(entries)-1 {
			h.Write(line)
			line = line[:0]
		}
	}
	return hex.EncodeToString(endFileHash(h))
}

func appendWord(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// cachedRun returns the layer that an equal RUN made before, or runs it. empty
// tells that it changed nothing.
func (b *builder) cachedRun(ctx context.Context, st *runStep, t *target) (layer store.Layer, empty bool, err error) {
	args, files := st.command()
	key := cacheKey("run", layerMaker(), b.o.Compression, b.when.Unix(), b.o.Isolation, st.network(t), t.ids(), args, st.environment(t), st.in.Mounts, files)
	if r, ok := b.lookup(ctx, key); ok {
		b.event(Event{Line: t.prefix + "cached"})
		return r.Layer, r.Empty, nil
	}
	layer, empty, err = st.execute(ctx, t)
	if err == nil {
		b.keep(key, stepRecord{Layer: layer, Empty: empty})
	}
	return layer, empty, err
}

// layerMaker tells what makes layers: with another, equal files may become
// other bytes, and a cached layer would not be the one that a build without the
// cache makes. It is the same on all machines that run one release.
//
//nolint:gochecknoglobals // a constant of the program
var layerMaker = sync.OnceValue(func() string {
	const generation = 2 // counts changes of writeTar, and of what RUN leaves
	maker := fmt.Sprintf("%d %s", generation, runtime.Version())
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/klauspost/compress" {
				maker += " " + m.Version
			}
		}
	}
	return maker
})

// A stepRecord is what the cache knows of a step.
type stepRecord struct {
	Layer store.Layer `json:"layer"`
	Empty bool        `json:"empty,omitempty"` // it made no layer
}

// cacheKey hashes what a step depends on.
func cacheKey(kind string, parts ...any) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	_ = enc.Encode(kind) // a hash takes all, and the parts are plain data
	for _, p := range parts {
		_ = enc.Encode(p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// cacheFile returns the file of the cache for key.
func (b *builder) cacheFile(kind, key string) string {
	return filepath.Join(b.s.CacheDir(), kind, key+".json")
}

// lookup returns what the cache has for key, when its layer is still here.
func (b *builder) lookup(ctx context.Context, key string) (r stepRecord, ok bool) {
	if b.o.NoCache {
		return r, false
	}
	content, err := os.ReadFile(b.cacheFile("steps", key))
	if err == nil && json.Unmarshal(content, &r) == nil && (r.Empty || b.hasLayer(ctx, r.Layer)) {
		b.use(key, r)
		return r, true
	}
	if r, ok = b.lookupShared(ctx, key); ok {
		b.keep(key, r)
	}
	return r, ok
}

// hasLayer reports whether the store has all of a layer.
func (b *builder) hasLayer(ctx context.Context, l store.Layer) bool {
	if fi, err := os.Stat(b.s.LayerDir(l.ID)); err != nil || !fi.IsDir() {
		return false
	}
	for _, d := range l.Descriptors {
		if ok, err := b.s.HasBlob(ctx, d.Digest); err != nil || !ok {
			return false
		}
	}
	return len(l.Descriptors) > 0
}

// keep records a step.
func (b *builder) keep(key string, r stepRecord) {
	b.use(key, r)
	b.keepJSON(b.cacheFile("steps", key), r)
}

// keepJSON writes a file of the cache. One that cannot be written is no fault.
func (b *builder) keepJSON(name string, v any) {
	content, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(name), 0o700)
	}
	if err == nil {
		err = replaceFile(name, content)
	}
	if err != nil {
		b.log.Debug("write the build cache", "error", err)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// exitError says how a command ended.
func exitError(code int) error {
	if code > 128 && code < 128+65 {
		return fmt.Errorf("the command was ended by signal %d", code-128)
	}
	return fmt.Errorf("the command ended with exit code %d", code)
}

var errInterrupted = errors.New("interrupted")
