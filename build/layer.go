package build

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/clusterimage/sealer/store"
)

// writeLayer makes the rootfs layer of entries.
func (b *builder) writeLayer(ctx context.Context, entries []entry) (store.Layer, error) {
	return b.s.WriteLayer(ctx, store.LayerOptions{Compression: b.o.Compression}, func(w io.Writer) error {
		return writeTar(w, entries, b.when, nil)
	})
}

// cachedRun returns the layer that an equal RUN made before, or runs it. empty
// tells that it changed nothing.
func (b *builder) cachedRun(ctx context.Context, st *runStep, t *target) (layer store.Layer, empty bool, err error) {
	key := cacheKey("run", b.o.Compression, b.when.Unix(), b.o.Isolation, st.network(t), t.ids(), st.command(), st.environment(t), st.in.Mounts)
	if r, ok := b.lookup(ctx, key); ok {
		b.event(Event{Line: t.prefix + "cached"})
		return r.Layer, r.Empty, nil
	}
	layer, empty, err = st.execute(ctx, t)
	if err == nil {
		b.keep(ctx, key, stepRecord{Layer: layer, Empty: empty})
	}
	return layer, empty, err
}

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

func (b *builder) stepFile(key string) string {
	return filepath.Join(b.s.CacheDir(), "steps", key+".json")
}

// lookup returns what the cache has for key, when its layer is still here.
func (b *builder) lookup(ctx context.Context, key string) (r stepRecord, ok bool) {
	if b.o.NoCache {
		return r, false
	}
	content, err := os.ReadFile(b.stepFile(key))
	if err != nil || json.Unmarshal(content, &r) != nil {
		return r, false
	}
	return r, r.Empty || b.hasLayer(ctx, r.Layer)
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

// keep records a step. A cache that cannot be written is no fault.
func (b *builder) keep(_ context.Context, key string, r stepRecord) {
	content, err := json.Marshal(r)
	name := b.stepFile(key)
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
