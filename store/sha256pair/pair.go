// Package sha256pair hashes two streams at once with SHA-256 (FIPS 180-4). A
// layer needs just that, of its tar and of its blob, and where a processor has
// no instructions for SHA-256 the two together are most of a layer's work.
//
// SHA-256 is a chain in which each step waits for the one before. On such a
// processor with AVX-512 two chains take as long as one: [Pair] interleaves
// them. On all others it leaves them to crypto/sha256, on two processors.
package sha256pair

import (
	"crypto/fips140"
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// alone is the size in bytes from which on it pays to hash on a processor of
// its own.
const alone = 64 << 10

// A Pair is two hashes. It is not safe for concurrent use.
type Pair struct {
	lanes [2]lane
	std   [2]hash.Hash // instead of lanes, where these are no faster
}

// New returns the hashes of two empty streams. Where FIPS 140 is asked for they
// are those of crypto/sha256.
func New() *Pair { return newPair(faster() && !fips140.Enabled()) }

func newPair(interleave bool) *Pair {
	if !interleave {
		return &Pair{std: [2]hash.Hash{sha256.New(), sha256.New()}}
	}
	return &Pair{lanes: [2]lane{{h: initial()}, {h: initial()}}}
}

// Write appends a to the first stream and b to the second; either may be empty.
// It is the faster the more equal their lengths are.
func (p *Pair) Write(a, b []byte) {
	if p.std[0] != nil {
		p.writeStd(a, b)
		return
	}
	a, b = p.lanes[0].complete(a), p.lanes[1].complete(b)
	if n := min(len(a), len(b)) &^ (sha256.BlockSize - 1); n > 0 {
		interleave(&p.lanes[0].h, &p.lanes[1].h, a[:n], b[:n])
		p.lanes[0].size += uint64(n)
		p.lanes[1].size += uint64(n)
		a, b = a[n:], b[n:]
	}
	p.lanes[0].write(a)
	p.lanes[1].write(b)
}

func (p *Pair) writeStd(a, b []byte) {
	if min(len(a), len(b)) < alone {
		p.std[0].Write(a)
		p.std[1].Write(b)
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.std[1].Write(b)
	}()
	p.std[0].Write(a)
	<-done
}

// Sums returns the digests of what was written to both. Nothing may be written
// afterwards.
func (p *Pair) Sums() (a, b [sha256.Size]byte) {
	if p.std[0] != nil {
		return [sha256.Size]byte(p.std[0].Sum(nil)), [sha256.Size]byte(p.std[1].Sum(nil))
	}
	return p.lanes[0].sum(), p.lanes[1].sum()
}

// A lane is one hash of the two.
type lane struct {
	h    [8]uint32
	buf  [sha256.BlockSize]byte // the begin of a block
	n    int                    // bytes in it
	size uint64                 // bytes of the stream
}

// complete takes from b what a begun block lacks, and returns the rest.
func (l *lane) complete(b []byte) []byte {
	if l.n == 0 {
		return b
	}
	n := copy(l.buf[l.n:], b)
	l.size += uint64(n)
	if l.n += n; l.n == len(l.buf) {
		l.blocks(l.buf[:])
		l.n = 0
	}
	return b[n:]
}

// write appends b to the lane alone.
func (l *lane) write(b []byte) {
	b = l.complete(b)
	if n := len(b) &^ (sha256.BlockSize - 1); n > 0 {
		l.blocks(b[:n])
		l.size += uint64(n)
		b = b[n:]
	}
	if len(b) > 0 {
		l.n = copy(l.buf[:], b)
		l.size += uint64(l.n)
	}
}

// blocks hashes whole blocks, as both of a pair.
func (l *lane) blocks(b []byte) {
	twin := l.h
	interleave(&l.h, &twin, b, b)
}

// sum pads the stream (FIPS 180-4, 5.1.1) and returns its digest.
func (l *lane) sum() (out [sha256.Size]byte) {
	size := l.size
	pad := make([]byte, 1, 2*sha256.BlockSize)
	pad[0] = 0x80
	for (l.n+len(pad))%sha256.BlockSize != sha256.BlockSize-8 {
		pad = append(pad, 0)
	}
	l.write(binary.BigEndian.AppendUint64(pad, size*8))
	for i, h := range l.h {
		binary.BigEndian.PutUint32(out[4*i:], h)
	}
	return out
}

// interleave adds the blocks of a to the hash x and those of b to y. The
// lengths of a and b are equal, and whole blocks.
func interleave(x, y *[8]uint32, a, b []byte) {
	var s state
	for i := range s {
		s[i] = [8]uint32{x[i], x[i+4], 0, 0, y[i], y[i+4]}
	}
	blocks(&s, &a[0], &b[0], len(a)/sha256.BlockSize)
	for i := range s {
		x[i], x[i+4], y[i], y[i+4] = s[i][0], s[i][1], s[i][4], s[i][5]
	}
}

// A state is the words of two hashes as the registers hold them: a to d, each
// beside its equal of e to h, first those of the one, then those of the other.
type state [4][8]uint32

// initial is H(0) of FIPS 180-4, 5.3.3.
func initial() [8]uint32 {
	return [8]uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}
}
