package sha256pair

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
)

// each runs a test with both ways of hashing.
func each(t *testing.T, test func(t *testing.T, interleave bool)) {
	t.Run("std", func(t *testing.T) {
		t.Parallel()
		test(t, false)
	})
	t.Run("interleaved", func(t *testing.T) {
		t.Parallel()
		if !able() {
			t.Skip("needs AVX-512")
		}
		test(t, true)
	})
}

// Two streams of every length up to three blocks and a bit, and of some long
// ones, cut anywhere, have the digests that crypto/sha256 says.
func TestPair(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, interleave bool) {
		r := rand.NewChaCha8([32]byte{1})
		random := rand.New(r)
		var lengths []int
		for n := range 3*sha256.BlockSize + 3 {
			lengths = append(lengths, n)
		}
		lengths = append(lengths, alone-1, alone, alone+1, 3*alone+7)
		for _, n := range lengths {
			a, b := make([]byte, n), make([]byte, lengths[random.IntN(len(lengths))])
			r.Read(a)
			r.Read(b)
			check(t, interleave, a, b, func(left int) int { return random.IntN(left + 1) })
			check(t, interleave, b, a, func(left int) int { return left })
		}
	})
}

// check writes a and b in parts whose sizes part gives, of what is left.
func check(t *testing.T, interleave bool, a, b []byte, part func(left int) int) {
	t.Helper()
	p := newPair(interleave)
	x, y := a, b
	for len(x)+len(y) > 0 {
		n, m := part(len(x)), part(len(y))
		p.Write(x[:n], y[:m])
		x, y = x[n:], y[m:]
	}
	gotA, gotB := p.Sums()
	if wantA, wantB := sha256.Sum256(a), sha256.Sum256(b); gotA != wantA || gotB != wantB {
		t.Fatalf("%d and %d bytes: %x and %x, want %x and %x", len(a), len(b), gotA, gotB, wantA, wantB)
	}
}

func FuzzPair(f *testing.F) {
	f.Add([]byte("abc"), []byte{}, uint16(1), uint16(1))
	f.Add(make([]byte, 200), make([]byte, 64), uint16(63), uint16(65))
	f.Fuzz(func(t *testing.T, a, b []byte, n, m uint16) {
		i := 0
		part := func(left int) int {
			i++
			return min(left, 1+int([]uint16{n, m}[i%2]))
		}
		check(t, false, a, b, part)
		if able() {
			check(t, true, a, b, part)
		}
	})
}

// BenchmarkPair hashes two streams of 1 MiB at a time; beside it crypto/sha256
// hashes them one after the other.
func BenchmarkPair(b *testing.B) {
	x, y := make([]byte, 1<<20), make([]byte, 1<<20)
	if able() {
		b.Run("interleaved", func(b *testing.B) {
			b.SetBytes(2 << 20)
			for p := newPair(true); b.Loop(); {
				p.Write(x, y)
			}
		})
	}
	b.Run("one after the other", func(b *testing.B) {
		b.SetBytes(2 << 20)
		for h, g := sha256.New(), sha256.New(); b.Loop(); {
			h.Write(x)
			g.Write(y)
		}
	})
}

func ExamplePair() {
	p := New()
	p.Write([]byte("tar"), []byte("blob"))
	a, b := p.Sums()
	fmt.Printf("%x %x\n", a[:4], b[:4])
	// Output: 90aebae3 fa2c8cc4
}
