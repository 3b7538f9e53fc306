package store_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/store"
)

// BenchmarkPutBlob puts new blobs of one size; BenchmarkPutBlobFloor is the
// least that can be done: one file, one SHA-256, one rename.
func BenchmarkPutBlob(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			s := open(b, b.TempDir())
			content := random(size)
			b.SetBytes(int64(size))
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				copy(content, fmt.Sprintf("%16d", i))
				d := describe(content)
				b.StartTimer()
				if err := s.PutBlob(b.Context(), d, copyIn(content)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.Remove(s.BlobPath(d.Digest)); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkPutBlobFloor(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20, 64 << 20} {
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			dir := b.TempDir()
			content := random(size)
			buf := make([]byte, 128<<10)
			b.SetBytes(int64(size))
			for b.Loop() {
				f, err := os.Create(filepath.Join(dir, "tmp"))
				if err != nil {
					b.Fatal(err)
				}
				h := digest.SHA256.Digester()
				w := io.MultiWriter(struct{ io.Writer }{f}, h.Hash())
				if _, err := io.CopyBuffer(w, struct{ io.Reader }{bytes.NewReader(content)}, buf); err != nil {
					b.Fatal(err)
				}
				if err := f.Close(); err != nil {
					b.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "tmp"), filepath.Join(dir, h.Digest().Encoded())); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := os.Remove(filepath.Join(dir, h.Digest().Encoded())); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkHasBlob asks for a blob that is there, as a warm build does.
func BenchmarkHasBlob(b *testing.B) {
	s := open(b, b.TempDir())
	d := blob(b, s, "x")
	for b.Loop() {
		if has, err := s.HasBlob(b.Context(), d.Digest); !has || err != nil {
			b.Fatal(has, err)
		}
	}
}

// corpus makes a directory of files as a rootfs has them: a few large programs,
// many small texts, half of all bytes compressible.
func corpus(b *testing.B, total int) string {
	dir := b.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n int) []byte {
		words := make([]string, 500)
		for i := range words {
			words[i] = fmt.Sprintf("word%d ", r.IntN(10_000))
		}
		var out []byte
		for len(out) < n {
			out = append(out, words[r.IntN(len(words))]...)
		}
		return out[:n]
	}
	noise := func(n int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(r.Uint32())
		}
		return out
	}
	write := func(name string, content []byte) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(p, content, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	large := total * 9 / 10
	for i := range 8 {
		write(fmt.Sprintf("bin/program%d", i), append(noise(large/16), text(large/16)...))
	}
	for i := range total / 10 / 10_000 {
		write(fmt.Sprintf("etc/d%d/f%d", i%50, i), text(10_000))
	}
	return dir
}

// writeDir writes a directory as a tar.
func writeDir(dir string) func(io.Writer) error {
	return func(w io.Writer) error {
		tw := tar.NewWriter(w)
		if err := tw.AddFS(os.DirFS(dir)); err != nil {
			return err
		}
		return tw.Close()
	}
}

// cpu returns the processor time that this process and its children have had:
// beside wall time, because other work on the machine does not change it.
func cpu() time.Duration {
	var total time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

const corpusSize = 128 << 20

// BenchmarkWriteLayer makes a layer of a directory: tar, hash, compress, hash,
// unpack. BenchmarkTarZstd is what it is measured against, with as many
// threads; it does not hash or unpack.
func BenchmarkWriteLayer(b *testing.B) {
	dir := corpus(b, corpusSize)
	for _, c := range []string{layer.CompressionZstd, layer.CompressionGzip, layer.CompressionNone} {
		b.Run(c, func(b *testing.B) {
			b.SetBytes(corpusSize)
			var total time.Duration
			n := 0
			for b.Loop() {
				b.StopTimer()
				s := open(b, b.TempDir())
				b.StartTimer()
				before := cpu()
				l, err := s.WriteLayer(b.Context(), store.LayerOptions{Compression: c}, writeDir(dir))
				if err != nil {
					b.Fatal(err)
				}
				total, n = total+cpu()-before, n+1
				b.ReportMetric(float64(l.Descriptors[0].Size)/corpusSize, "ratio")
				b.ReportMetric(total.Seconds()/float64(n), "cpu-s/op")
				b.StopTimer()
				if err := os.RemoveAll(s.Root()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkTarZstd(b *testing.B) {
	if _, err := exec.LookPath("zstd"); err != nil {
		b.Skip("no zstd here")
	}
	dir, out := corpus(b, corpusSize), filepath.Join(b.TempDir(), "out")
	b.SetBytes(corpusSize)
	before := cpu()
	for b.Loop() {
		cmd := exec.Command("sh", "-c", fmt.Sprintf("tar -C %s -c . | zstd -q -f -3 -T%d -o %s", dir, runtime.GOMAXPROCS(0), out))
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	b.ReportMetric((cpu()-before).Seconds()/float64(b.N), "cpu-s/op")
	if fi, err := os.Stat(out); err == nil {
		b.ReportMetric(float64(fi.Size())/corpusSize, "ratio")
	}
}

// BenchmarkCommitUnpacks is what a pull or a load does after the transfer.
func BenchmarkCommitUnpacks(b *testing.B) {
	dir := corpus(b, corpusSize)
	s := open(b, b.TempDir())
	l, err := s.WriteLayer(b.Context(), store.LayerOptions{}, writeDir(dir))
	if err != nil {
		b.Fatal(err)
	}
	d := write(b, s, "amd64", l)
	b.SetBytes(corpusSize)
	for b.Loop() {
		b.StopTimer()
		if err := os.RemoveAll(s.LayerDir(l.ID)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := s.Commit(b.Context(), names(b, "a"), d); err != nil {
			b.Fatal(err)
		}
	}
}
