package store_test

import (
	"archive/tar"
	"bytes"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/store"
)

// TestEqualTarsGiveEqualBlobs writes one tar on different numbers of
// processors and in different portions. It is not parallel to others, since
// the number is the process's.
func TestEqualTarsGiveEqualBlobs(t *testing.T) { //nolint:paralleltest // see above
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"one", "two"} {
		content := make([]byte, 4500<<10) // together more than two pieces
		for i := range content {
			content[i] = byte(r.IntN(1 + i*256/len(content))) // compresses well, then not at all
		}
		if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, compression := range []string{layer.CompressionZstd, layer.CompressionGzip} {
		blobs := map[digest.Digest]bool{}
		for _, c := range []struct{ processors, portion int }{{1, b.Len()}, {2, 512}, {5, 70_000}} {
			runtime.GOMAXPROCS(c.processors)
			s := open(t, t.TempDir())
			l, err := s.WriteLayer(t.Context(), store.LayerOptions{Compression: compression}, func(w io.Writer) error {
				for rest := b.Bytes(); len(rest) > 0; {
					n, err := w.Write(rest[:min(c.portion, len(rest))])
					if err != nil {
						return err
					}
					rest = rest[n:]
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			blobs[l.Descriptors[0].Digest] = true
		}
		if len(blobs) != 1 {
			t.Errorf("%s: %d different blobs", compression, len(blobs))
		}
	}
}
