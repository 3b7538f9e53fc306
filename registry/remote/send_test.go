package remote_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/store/storetest"
)

// cutAfter breaks the connection when n bytes of the request's body were read.
func cutAfter(n int64) registrytest.Action {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = &cutBody{r.Body, n}
			next.ServeHTTP(discard{http.Header{}}, r)
			panic(http.ErrAbortHandler)
		})
	}
}

type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// discard is a ResponseWriter of a connection that is gone.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

// heavy puts an image with one layer of size bytes into s.
func heavy(t *testing.T, s *store.Store, size int) ocispec.Descriptor {
	t.Helper()
	put := func(mediaType string, content []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
		err := s.PutBlob(t.Context(), d, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(content)); return err })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	content := make([]byte, size)
	if _, err := rand.NewChaCha8([32]byte{1}).Read(content); err != nil {
		t.Fatal(err)
	}
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	m.Config = put(ocispec.MediaTypeImageConfig, []byte(`{}`))
	m.Layers = []ocispec.Descriptor{put(ocispec.MediaTypeImageLayer, content)}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return put(m.MediaType, b)
}

// sent returns the bytes of blobs that up was sent.
func sent(up *registrytest.Upstream) (n int64) {
	for _, r := range up.Requests() {
		if r.Level == registrytest.Upload {
			n += r.Received
		}
	}
	return n
}

// An upload that breaks off goes on where the registry says, in the same run and
// in the next one. A registry that does not say gets the blob from its start.
func TestUploadsAreResumed(t *testing.T) {
	t.Parallel()
	const size, cut = 1200 << 10, 1100 << 10
	status := func(do registrytest.Action) *registrytest.Fault {
		return &registrytest.Fault{On: registrytest.Upload, Method: http.MethodGet, Do: do}
	}
	lie := func(text string) *registrytest.Fault {
		return status(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(rangeWriter{w, text}, r)
			})
		})
	}
	for name, tc := range map[string]struct {
		status *registrytest.Fault // of the question for the offset
		twice  int64               // bytes that may be sent twice
	}{
		"resumed":        {nil, 256 << 10},
		"unknown":        {status(registrytest.Status(http.StatusNotFound)), cut},
		"not supported":  {status(registrytest.Status(http.StatusMethodNotAllowed)), cut},
		"beyond the end": {lie(fmt.Sprintf("0-%d", size+7)), cut},
		"nonsense":       {lie("bytes 12"), cut},
		"too few":        {lie("0-99"), 2 * size},                       // the registry refuses, or the digest is wrong
		"too many":       {lie(fmt.Sprintf("0-%d", cut+100)), 2 * size}, // the same
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, again := range []bool{false, true} { // in the next run
				if again && tc.status != nil && name != "unknown" {
					continue
				}
				to := newUpstream(t, registrytest.Options{Dir: t.TempDir(), Images: []registrytest.Image{{Name: "other:1"}}})
				s := storetest.New(t)
				d := heavy(t, s, size)
				o := options(t, to)
				if again {
					o.Retries = -1
				}
				po := remote.PushOptions{Record: remote.OpenRecord(t.TempDir())}
				cutting := to.Inject(registrytest.Fault{On: registrytest.Upload, Method: http.MethodPut, Times: 2, Do: func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.ContentLength < cut {
							next.ServeHTTP(w, r)
							return
						}
						cutAfter(cut)(next).ServeHTTP(w, r)
					})
				}})
				if tc.status != nil {
					to.Inject(*tc.status)
				}
				err := newClient(t, o).Push(t.Context(), s, d, to.Ref("heavy:1"), po)
				if again {
					if err == nil {
						t.Fatal("a push without a retry survived the cut")
					}
					o.Retries = 2
					to.ClearFaults()
					if tc.status != nil {
						to.Inject(*tc.status)
					}
					err = newClient(t, o).Push(t.Context(), s, d, to.Ref("heavy:1"), po)
				}
				if err != nil {
					t.Fatal(err)
				}
				if n := sent(to) - size - 2; n > tc.twice || cutting() == 0 && !again {
					t.Errorf("again=%v: %d bytes were sent twice, want at most %d", again, n, tc.twice)
				}
				if _, err := newClient(t, o).Pull(t.Context(), storetest.New(t), to.Ref("heavy:1"), remote.PullOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// rangeWriter answers with another Range.
type rangeWriter struct {
	http.ResponseWriter
	text string
}

func (w rangeWriter) WriteHeader(status int) {
	w.Header().Set("Range", w.text)
	w.ResponseWriter.WriteHeader(status)
}
