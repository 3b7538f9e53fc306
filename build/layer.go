package build

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/store"
)

// Up to firstHash unhashed bytes are hashed first, to look for a cached layer,
// though a miss reads them twice. Above firstHash the layer is written in one
// pass. Files of names and sizes that no layer has had are never read twice.
const firstHash = 64 << 20

// writeLayer makes the rootfs layer of entries, or returns the layer of equal
// entries from the cache.
func (pb *platformBuild) writeLayer(ctx context.Context, in kubefile.Instruction, entries []entry) (image.Layer, error) {
	b := pb.b
	unknown, total := b.recall(entries)
	if b.hashesFirst(entries, unknown, total) {
		if err := b.hash(ctx, entries); err != nil {
			return image.Layer{}, fmt.Errorf("hash the files: %w", err)
		}
		if r, ok := b.lookup(ctx, b.entriesKey(entries)); ok {
			return r.Layer, nil
		}
	}
	before, like := pb.before(in, total)
	layer, err := b.newLayer(ctx, entries, like)
	if err != nil {
		return layer, fmt.Errorf("write the layer: %w", err)
	}
	b.keep(b.entriesKey(entries), stepRecord{Layer: layer})
	b.keepJSON(b.shapeFile(entries), true)
	if before != "" {
		b.keepJSON(before, layer)
	}
	return layer, nil
}

// hashesFirst reports whether the files are hashed before the layer is written,
// to look for it in the cache. unknown and total are bytes: of files without a
// hash, and of all.
func (b *builder) hashesFirst(entries []entry, unknown, total int64) bool {
	return unknown == 0 || len(b.shared) > 0 || unknown <= max(firstHash, total/8) && b.hasShape(entries)
}

// newLayer writes a layer of entries, and hashes them on the way.
func (b *builder) newLayer(ctx context.Context, entries []entry, like image.Layer) (image.Layer, error) {
	begun := time.Now()
	o := store.LayerOptions{Compression: b.o.Compression, Like: like}
	layer, err := b.s.WriteLayer(ctx, o, func(w io.Writer) error {
		return writeTar(contextWriter{ctx, w}, entries, b.when, func(e *entry, sum []byte) {
			e.sum = sum
			b.learn(e, begun)
		})
	})
	if err != nil {
		return layer, err
	}
	return layer, b.hash(ctx, entries) // inline content; the tar writer hashed all files
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
