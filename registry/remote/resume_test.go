package remote_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

const partBytes = 5 << 20

// A blobServer serves one blob, with ranges, by answer if that is set.
type blobServer struct {
	*httptest.Server
	content []byte
	sent    atomic.Int64
	answer  atomic.Pointer[http.HandlerFunc]
}

func newBlobServer(t *testing.T, size int) *blobServer {
	t.Helper()
	s := &blobServer{content: make([]byte, size)}
	_, _ = rand.Read(s.content)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return
		}
		if f := s.answer.Load(); f != nil {
			(*f)(w, r)
			return
		}
		s.send(w, r, size)
	}))
	t.Cleanup(s.Close)
	return s
}

// send answers with up to n bytes of the range, and then breaks off.
func (s *blobServer) send(w http.ResponseWriter, r *http.Request, n int) {
	from := 0
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	w.Header().Set("Content-Length", fmt.Sprint(len(s.content)-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(s.content)-1, len(s.content)))
		w.WriteHeader(http.StatusPartialContent)
	}
	k, _ := w.Write(s.content[from:min(from+n, len(s.content))])
	s.sent.Add(int64(k))
	if from+n < len(s.content) {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// whole answers as a registry that knows no ranges.
func (s *blobServer) whole(w http.ResponseWriter, _ *http.Request) {
	k, _ := w.Write(s.content)
	s.sent.Add(int64(k))
}

func (s *blobServer) desc() ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: "application/octet-stream", Digest: digest.FromBytes(s.content), Size: int64(len(s.content))}
}

// fetch fetches the blob in a store of its own, as another process would.
func (s *blobServer) fetch(t *testing.T, root string) error {
	t.Helper()
	host := strings.TrimPrefix(s.URL, "http://")
	c := newClient(t, remote.Options{Insecure: []string{"http://" + host}, Retries: -1, RegistriesConf: write(t, "registries.conf", "")})
	st, err := store.Open(root, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	from := ref.Reference{Registry: host, Repository: "a/b", Tag: "v1"}
	var told int64
	err = remote.Fetch(t.Context(), st, []remote.Wanted{{
		Descriptor: s.desc(), From: []remote.Origin{{Client: c, Image: from}}, Progress: func(n int) { told += int64(n) },
	}}, 1)[s.desc().Digest]
	has, hasErr := st.HasBlob(t.Context(), s.desc().Digest)
	if hasErr != nil || has != (err == nil) {
		t.Errorf("the blob is there: %v, %v, after %v", has, hasErr, err)
	}
	if err == nil && told != s.desc().Size {
		t.Errorf("progress of %d bytes, want %d", told, s.desc().Size)
	}
	return err
}

func partials(t *testing.T, root string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, "tmp", "partial-*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestResumeAcrossRuns: another process goes on where a blob broke off, or begins
// it anew where the registry does not go on.
func TestResumeAcrossRuns(t *testing.T) {
	t.Parallel()
	const size = 12 << 20
	other := func(s *blobServer) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") == "" {
				s.whole(w, r)
				return
			}
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(s.content)
		}
	}
	for name, tc := range map[string]struct {
		answer func(s *blobServer) http.HandlerFunc // of the second run; nil goes on
		spoil  func(t *testing.T, partial string)
		most   int64 // bytes that the server sends in the second run
	}{
		"goes on":     {most: size - partBytes},
		"no ranges":   {answer: func(s *blobServer) http.HandlerFunc { return s.whole }, most: size},
		"other range": {answer: other, most: size},
		"416": {answer: func(s *blobServer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Range") != "" {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
					return
				}
				s.whole(w, r)
			}
		}, most: size},
		"spoilt on disk": {spoil: func(t *testing.T, partial string) {
			f, err := os.OpenFile(partial, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte("spoilt"), 1000); err != nil {
				t.Fatal(err)
			}
		}, most: 2*size - partBytes},
		"too long on disk": {spoil: func(t *testing.T, partial string) {
			if err := os.Truncate(partial, size+1); err != nil {
				t.Fatal(err)
			}
		}, most: size},
		"gone": {spoil: func(t *testing.T, partial string) {
			if err := os.Remove(partial); err != nil {
				t.Fatal(err)
			}
		}, most: size},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root := newBlobServer(t, size), filepath.Join(t.TempDir(), "store")
			cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.send(w, r, partBytes) })
			s.answer.Store(&cut)
			if err := s.fetch(t, root); err == nil {
				t.Fatal("a blob that broke off was taken")
			}
			kept := partials(t, root)
			if len(kept) != 1 {
				t.Fatalf("kept %q", kept)
			}
			if fi, err := os.Stat(kept[0]); err != nil || fi.Size() == 0 || fi.Mode().Perm() != 0o600 {
				t.Fatalf("kept %v, %v", fi, err)
			}
			if tc.spoil != nil {
				tc.spoil(t, kept[0])
			}
			if s.answer.Store(nil); tc.answer != nil {
				f := tc.answer(s)
				s.answer.Store(&f)
			}
			s.sent.Store(0)
			if err := s.fetch(t, root); err != nil {
				t.Fatal(err)
			}
			if got := s.sent.Load(); got > tc.most+progressSlack {
				t.Errorf("%d bytes sent, want %d", got, tc.most)
			}
			if kept := partials(t, root); len(kept) > 0 {
				t.Errorf("left behind: %q", kept)
			}
		})
	}
}

// progressSlack is the part of a cut answer that its reader never saw.
const progressSlack = 1 << 20

// TestNothingToResume: wrong content and small blobs leave nothing behind.
func TestNothingToResume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size   int
		answer func(s *blobServer) http.HandlerFunc
	}{
		"small": {4 << 20, func(s *blobServer) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) { s.send(w, r, 3<<20) }
		}},
		"wrong bytes": {12 << 20, func(s *blobServer) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, len(s.content))) }
		}},
		"nothing": {12 << 20, func(*blobServer) http.HandlerFunc { return http.NotFound }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, root := newBlobServer(t, tc.size), filepath.Join(t.TempDir(), "store")
			f := tc.answer(s)
			s.answer.Store(&f)
			if err := s.fetch(t, root); err == nil {
				t.Fatal("taken")
			}
			if left, _ := filepath.Glob(filepath.Join(root, "tmp", "[^s]*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// TestResumeLies: a registry whose rest is that of another blob costs one more
// transfer, and is refused.
func TestResumeLies(t *testing.T) {
	t.Parallel()
	s, root := newBlobServer(t, 12<<20), filepath.Join(t.TempDir(), "store")
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.send(w, r, partBytes) })
	s.answer.Store(&cut)
	if err := s.fetch(t, root); err == nil {
		t.Fatal("taken")
	}
	wrong := &blobServer{content: make([]byte, len(s.content))}
	requests := 0
	lie := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		wrong.send(w, r, len(wrong.content))
	})
	s.answer.Store(&lie)
	if err := s.fetch(t, root); err == nil || !strings.Contains(err.Error(), "its digest is") {
		t.Errorf("got %v", err)
	}
	if requests != 2 {
		t.Errorf("%d requests, want the rest and the whole", requests)
	}
	if kept := partials(t, root); len(kept) > 0 {
		t.Errorf("wrong bytes kept: %q", kept)
	}
}

// TestPlainWriterAfterPartial: a writer that knows nothing of earlier runs writes
// the whole blob.
func TestPlainWriterAfterPartial(t *testing.T) {
	t.Parallel()
	s, root := newBlobServer(t, 12<<20), filepath.Join(t.TempDir(), "store")
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.send(w, r, partBytes) })
	s.answer.Store(&cut)
	if err := s.fetch(t, root); err == nil {
		t.Fatal("taken")
	}
	st, err := store.Open(root, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	err = st.PutBlob(context.Background(), s.desc(), func(w io.Writer) error {
		_, err := w.Write(s.content)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
