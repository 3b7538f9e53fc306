package layer

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"runtime"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// pieceSize is how much of a tar is compressed by itself. Zstd finds matches
// no further back than this; more costs memory, less costs compression.
const pieceSize = 4 << 20

// maxWorkers caps the compressing goroutines, and so the memory in flight. Hashing
// is serial: beyond about 16 it is the bottleneck.
const maxWorkers = 16

// flushPieces is how many pieces are written until the disk begins with them.
const flushPieces = 64 << 20 / pieceSize

// A pipeline reads a tar once and hashes, compresses and unpacks it at the same
// time. All stages share each piece, read-only:
//
//	         +-> toFiles -> unpack ----------------+
//	write ---+-> toPack --> compress -> piece.out  +-> free
//	         +-> packed --> write blob -> toHash --+
//
// write cuts the tar into pieces. packed keeps their order: the blob's writer
// waits for each piece's out. A piece is free again when the unpacker, the
// blob's writer and the hasher are done with it.
type pipeline struct {
	compressor compressor
	workers    int     // goroutines that compress
	old        *frames // of a blob that may have equal pieces
	blob       *os.File
	unpack     func(context.Context, io.Reader) (int64, error)
	writeBack  func() // asks the disk to begin with the pages written so far

	free    chan *piece // bounds the memory
	toFiles chan *piece
	toPack  chan *piece // to the compressing goroutines
	packed  chan *piece // to the blob, in order
	toHash  chan *piece // likewise, once they are compressed
}

// A piece is a part of the tar on its way.
type piece struct {
	buf   []byte
	small []byte // compressed; its memory is used again
	old   []byte // the frame in its place in another blob
	blob  []byte // its part of the blob: small, old or buf
	refs  atomic.Int32
	out   chan packed
}

type packed struct {
	b   []byte
	err error
}

// done is the result of a pipeline.
type done struct {
	id       digest.Digest // of the tar
	size     int64         // of the files in it
	blob     digest.Digest
	blobSize int64
}

func newPipeline(c compressor, blob *os.File, unpack func(context.Context, io.Reader) (int64, error)) *pipeline {
	workers := min(runtime.GOMAXPROCS(0), maxWorkers)
	n := workers + 3
	p := &pipeline{
		compressor: c, workers: workers, blob: blob, unpack: unpack,
		free: make(chan *piece, n), toFiles: make(chan *piece, n),
		toPack: make(chan *piece, n), packed: make(chan *piece, n), toHash: make(chan *piece, n),
	}
	for range n {
		p.free <- nil // made when first needed: most layers are small
	}
	return p
}

func (p *pipeline) run(ctx context.Context, write func(w io.Writer) error) (done, error) {
	var d done
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		r := &pieceReader{p: p, ctx: ctx}
		if d.size, err = p.unpack(ctx, r); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r) // padding after the end of the archive
		return err
	})
	for range p.workers {
		g.Go(p.compress)
	}
	flush := make(chan struct{}, 1)
	g.Go(func() error {
		for range flush {
			p.writeBack()
		}
		return nil
	})
	g.Go(func() error {
		defer close(flush)
		defer close(p.toHash)
		return p.writeBlob(flush)
	})
	g.Go(func() error {
		p.hash(&d)
		return nil
	})
	w := &pieceWriter{p: p, ctx: ctx}
	err := write(w)
	if err == nil {
		err = w.flush()
	}
	if err == nil && w.n == 0 {
		err = errors.New("nothing was written")
	}
	// If a stage failed first, write's error is a consequence: report the
	// stage's. If write failed, the stages only saw a truncated tar: report
	// write's.
	own := err != nil && ctx.Err() == nil
	for _, c := range []chan *piece{p.toFiles, p.toPack, p.packed} {
		close(c)
	}
	if failed := g.Wait(); failed != nil && !own {
		return d, failed
	}
	return d, err
}

// compress compresses pieces, or takes compressed ones from another blob.
func (p *pipeline) compress() error {
	var plain, room []byte
	for pc := range p.toPack {
		var known bool
		if known, plain = p.old.holds(pc.old, pc.buf, plain); known {
			pc.out <- packed{pc.old, nil}
			continue
		}
		if p.compressor.compress == nil {
			pc.out <- packed{pc.buf, nil}
			continue
		}
		var err error
		room, err = pc.pack(p.compressor, room)
		pc.out <- packed{pc.small, err}
	}
	return nil
}

// pack compresses the piece into pc.small. To compress takes room for a piece that
// does not shrink. A piece that shrinks is copied out of room, which is returned for
// the next one; another keeps it.
func (pc *piece) pack(c compressor, room []byte) ([]byte, error) {
	var err error
	if cap(pc.small) >= len(pc.buf) {
		pc.small, err = c.compress(pc.buf, pc.small[:0])
		return room, err
	}
	room, err = c.compress(pc.buf, room[:0])
	if len(room) > cap(room)/2 {
		pc.small = room
		return nil, err
	}
	pc.small = append(pc.small[:0], room...)
	return room, err
}

// writeBlob writes the compressed pieces to the blob. It starts write-back early,
// so that the store's flush has less to wait for.
func (p *pipeline) writeBlob(flush chan<- struct{}) error {
	n := 0
	for pc := range p.packed {
		if n++; n%flushPieces == 0 && len(flush) == 0 {
			flush <- struct{}{}
		}
		out := <-pc.out
		if out.err != nil {
			return out.err
		}
		pc.blob = out.b
		p.toHash <- pc // never blocks
		if _, err := p.blob.Write(out.b); err != nil {
			return err
		}
		p.release(pc)
	}
	return nil
}

// hash hashes the tar and the blob.
func (p *pipeline) hash(d *done) {
	id, blob := sha256.New(), sha256.New()
	for pc := range p.toHash {
		hashBoth(id, blob, pc.buf, pc.blob)
		d.blobSize += int64(len(pc.blob))
		p.release(pc)
	}
	d.id = digest.NewDigest(digest.SHA256, id)
	d.blob = digest.NewDigest(digest.SHA256, blob)
}

// hashAlone is the size in bytes from which a goroutine of its own pays for a
// hash.
const hashAlone = 64 << 10

// hashBoth adds a to x and b to y, on two processors where both are large.
func hashBoth(x, y hash.Hash, a, b []byte) {
	if min(len(a), len(b)) < hashAlone {
		x.Write(a)
		y.Write(b)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Write(b)
	}()
	x.Write(a)
	<-done
}

// release gives a piece back once all its holders are done.
func (p *pipeline) release(pc *piece) {
	if pc.refs.Add(-1) == 0 {
		pc.buf = pc.buf[:0]
		p.free <- pc
	}
}

// A pieceWriter cuts the bytes written to it into pieces.
type pieceWriter struct {
	p   *pipeline
	ctx context.Context //nolint:containedctx // an io.Writer is given none
	cur *piece
	n   int64
}

// Write implements io.Writer.
func (w *pieceWriter) Write(b []byte) (int, error) {
	total := len(b)
	for len(b) > 0 {
		if w.cur == nil {
			if err := w.next(); err != nil {
				return total - len(b), err
			}
		}
		n := min(len(b), pieceSize-len(w.cur.buf))
		if free := w.cur.buf[len(w.cur.buf):cap(w.cur.buf)]; len(free) >= n && &free[0] == &b[0] {
			w.cur.buf = w.cur.buf[:len(w.cur.buf)+n] // AvailableBuffer gave it
		} else {
			w.cur.buf = append(w.cur.buf, b[:n]...)
		}
		b = b[n:]
		w.n += int64(n)
		if len(w.cur.buf) == pieceSize {
			if err := w.flush(); err != nil {
				return total - len(b), err
			}
		}
	}
	return total, nil
}

// AvailableBuffer returns an empty slice of the free space of the current piece,
// to be filled and passed to the Write that follows: such a Write copies
// nothing. It may have no capacity.
func (w *pieceWriter) AvailableBuffer() []byte {
	if w.cur == nil && w.next() != nil {
		return nil // Write will say why
	}
	return w.cur.buf[len(w.cur.buf):]
}

func (w *pieceWriter) next() error {
	select {
	case w.cur = <-w.p.free:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	if w.cur == nil {
		w.cur = &piece{}
		if w.n > 0 {
			w.cur.buf = make([]byte, 0, pieceSize) // it is no small layer
		}
	}
	return nil
}

// flush hands the current piece on.
func (w *pieceWriter) flush() error {
	pc := w.cur
	if pc == nil {
		return w.ctx.Err()
	}
	w.cur = nil
	pc.old = w.p.old.next(pc.old[:0])
	pc.refs.Store(3) // unpacker, blob writer, hasher; the blob writer waits for the compressor
	pc.out = make(chan packed, 1)
	for _, c := range []chan *piece{w.p.toFiles, w.p.toPack, w.p.packed} {
		c <- pc // never blocks: each holds all pieces that there are
	}
	return nil
}

// A pieceReader reads the pieces as one stream.
type pieceReader struct {
	p    *pipeline
	ctx  context.Context //nolint:containedctx // an io.Reader is given none
	cur  *piece
	read int
}

// Read implements io.Reader.
func (r *pieceReader) Read(b []byte) (int, error) {
	for r.cur == nil {
		select {
		case pc, ok := <-r.p.toFiles:
			if !ok {
				return 0, io.EOF
			}
			r.cur, r.read = pc, 0
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		}
	}
	n := copy(b, r.cur.buf[r.read:])
	if r.read += n; r.read == len(r.cur.buf) {
		r.p.release(r.cur)
		r.cur = nil
	}
	return n, nil
}
