package store_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/store"
)

func open(t testing.TB, root string) *store.Store {
	t.Helper()
	s, err := store.Open(root, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func describe(b []byte) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "application/octet-stream", Digest: digest.FromBytes(b), Size: int64(len(b))}
}

// copyIn writes b as a caller with a socket does.
func copyIn(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, struct{ io.Reader }{bytes.NewReader(b)})
		return err
	}
}

// temporaries lists what is in ROOT/tmp beside session records.
func temporaries(t testing.TB, s *store.Store) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Root(), "tmp"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "session-") {
			out = append(out, e.Name())
		}
	}
	return out
}

func TestPutBlob(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	for _, size := range []int{0, 1, 128<<10 - 1, 128 << 10, 1<<20 + 7} {
		b := bytes.Repeat([]byte{'x'}, size)
		d := describe(b)
		if has, err := s.HasBlob(t.Context(), d.Digest); has || err != nil {
			t.Fatalf("HasBlob before: %v, %v", has, err)
		}
		if _, err := s.OpenBlob(t.Context(), d.Digest); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("OpenBlob before: %v", err)
		}
		if err := s.PutBlob(t.Context(), d, copyIn(b)); err != nil {
			t.Fatal(err)
		}
		got, err := s.ReadBlob(t.Context(), d.Digest, int64(size))
		if err != nil || !bytes.Equal(got, b) {
			t.Fatalf("ReadBlob: %d bytes, %v", len(got), err)
		}
		if fi, err := os.Stat(s.BlobPath(d.Digest)); err != nil || fi.Mode().Perm() != 0o444 {
			t.Fatalf("%v, %v", fi, err)
		}
		err = s.PutBlob(t.Context(), d, func(io.Writer) error { return errors.New("asked again") })
		if err != nil {
			t.Fatal(err)
		}
	}
	if left := temporaries(t, s); left != nil {
		t.Errorf("left: %v", left)
	}
}

func TestPutBlobRefuses(t *testing.T) {
	t.Parallel()
	content := []byte("the content")
	broken := errors.New("connection reset")
	long := describe(content)
	long.Size--
	short := describe(content)
	short.Size++
	for name, tc := range map[string]struct {
		desc  ocispec.Descriptor
		write func(io.Writer) error
		want  error
	}{
		"digest":     {describe([]byte("other bytes")), copyIn(content), store.ErrMismatch},
		"long":       {long, copyIn(content), store.ErrMismatch},
		"short":      {short, copyIn(content), store.ErrMismatch},
		"broken":     {describe(content), func(w io.Writer) error { _, _ = w.Write(content[:3]); return broken }, broken},
		"cut":        {describe(content), func(w io.Writer) error { _, err := io.Copy(w, cutReader{}); return err }, io.ErrUnexpectedEOF},
		"traversal":  {ocispec.Descriptor{Digest: "sha256:../../x"}, copyIn(content), store.ErrInvalid},
		"sha512":     {ocispec.Descriptor{Digest: digest.Digest("sha512:" + strings.Repeat("0", 128))}, copyIn(content), store.ErrInvalid},
		"huge claim": {ocispec.Descriptor{Digest: digest.FromString("x"), Size: 1 << 60}, copyIn(content), syscall.ENOSPC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			if err := s.PutBlob(t.Context(), tc.desc, tc.write); !errors.Is(err, tc.want) {
				t.Errorf("PutBlob: %v, want %v", err, tc.want)
			}
			if has, _ := s.HasBlob(t.Context(), tc.desc.Digest); has {
				t.Error("the blob is there")
			}
			if left := temporaries(t, s); left != nil {
				t.Errorf("left: %v", left)
			}
		})
	}
}

type cutReader struct{}

func (cutReader) Read(p []byte) (int, error) { return copy(p, "the"), io.ErrUnexpectedEOF }

// One writes, though many stores and goroutines ask.
func TestPutBlobSingleFlight(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	stores := []*store.Store{open(t, root), open(t, root), open(t, root)}
	content := bytes.Repeat([]byte("0123456789"), 100_000)
	var writes atomic.Int32
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			err := stores[i%len(stores)].PutBlob(t.Context(), describe(content), func(w io.Writer) error {
				if writes.Add(1) == 1 {
					return io.ErrUnexpectedEOF // then another's turn
				}
				return copyIn(content)(w)
			})
			if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := writes.Load(); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}
