package build

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/registry/platform"
)

// cachedRun returns the layer that an equal RUN made before, or runs it. empty
// tells that it changed nothing.
func (b *builder) cachedRun(ctx context.Context, st *runStep, pb *platformBuild) (layer image.Layer, empty bool, err error) {
	args, files := st.command()
	key := cacheKey("run", layerMaker(), b.o.Compression, b.when.Unix(), b.o.Isolation, st.network(pb), pb.ids(), args, st.environment(pb), st.in.Mounts, files)
	if r, ok := b.lookup(ctx, key); ok {
		b.event(Event{Line: pb.prefix + "cached"})
		return r.Layer, r.Empty, nil
	}
	layer, empty, err = st.execute(ctx, pb)
	if err == nil {
		b.keep(key, stepRecord{Layer: layer, Empty: empty})
	}
	return layer, empty, err
}

// worthLike is the size of a layer, in bytes, from which on another is looked
// for that may have equal parts.
const worthLike = 1 << 20

// before returns the cache file with the last layer of this instruction in this
// context, and that layer, for LayerOptions.Like. The key names the program:
// another version may compress differently.
func (pb *platformBuild) before(in kubefile.Instruction, size int64) (file string, like image.Layer) {
	b := pb.b
	if size < worthLike {
		return "", like
	}
	dir, err := filepath.Abs(b.o.Context)
	if err != nil {
		return "", like
	}
	file = b.cacheFile("before", cacheKey("before", b.program(), dir, platform.String(pb.platform), b.o.Compression, in.Keyword(), in.Text()))
	if content, err := os.ReadFile(file); b.o.NoCache || err != nil || json.Unmarshal(content, &like) != nil {
		return file, image.Layer{}
	}
	return file, like
}

// shapeFile is the cache file that exists if an earlier build made a layer of
// the same names, sizes and modes.
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

// entriesKey is the digest of a layer's input: entries, compression, time and
// layerMaker.
func (b *builder) entriesKey(entries []entry) string {
	h := newFileHash()
	line := fmt.Appendf(nil, "files %s %q %d\n", layerMaker(), b.o.Compression, b.when.Unix())
	for i := range entries {
		e := &entries[i]
		line = appendWord(appendWord(line, e.name), e.link)
		line = append(binary.AppendUvarint(line, uint64(len(e.sum))), e.sum...)
		line = binary.AppendUvarint(line, uint64(len(e.xattrs)))
		if len(e.xattrs) > 0 {
			for _, name := range slices.Sorted(maps.Keys(e.xattrs)) {
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

// layerMaker identifies the code that makes layers. Other code may make other
// bytes of equal files: a cached layer would then differ from the layer of a
// build without the cache. The value is the same on all machines that run one
// release.
//
//nolint:gochecknoglobals // a constant of the program
var layerMaker = sync.OnceValue(func() string {
	const generation = 2 // counts changes of writeTar and of upperWalker
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

// A stepRecord is the cached result of a step.
type stepRecord struct {
	Layer image.Layer `json:"layer"`
	Empty bool        `json:"empty,omitempty"` // it made no layer
}

// cacheKey hashes the inputs of a step.
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

// lookup returns the cached result for key if its layer is still in the store.
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
func (b *builder) hasLayer(ctx context.Context, l image.Layer) bool {
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
