package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
)

// A directory is a Source of blobs in files.
type directory string

func (d directory) OpenBlob(_ context.Context, dgst digest.Digest) (*os.File, error) {
	return os.Open(filepath.Join(string(d), dgst.Encoded()))
}

func (d directory) put(t *testing.T, mediaType string, b []byte) ocispec.Descriptor {
	t.Helper()
	dgst := digest.FromBytes(b)
	if err := os.WriteFile(filepath.Join(string(d), dgst.Encoded()), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: dgst, Size: int64(len(b))}
}

// TestPushToSlowRegistry: a registry that stops reading, and one that has read all
// and does not answer, hold a push for a bounded time.
func TestPushToSlowRegistry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reads bool
		size  int
		want  string
	}{
		"does not read":   {false, 32 << 20, "the registry does not read"}, // more than the kernel keeps
		"does not answer": {true, 1 << 10, "the registry does not answer: no data, or too little, for too long (1s after all 1024 bytes were sent)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodHead || r.Method == http.MethodGet && r.URL.Path != "/v2/":
					w.WriteHeader(http.StatusNotFound)
				case r.Method == http.MethodPost:
					w.Header().Set("Location", "/v2/x/blobs/uploads/1")
					w.WriteHeader(http.StatusAccepted)
				case r.Method == http.MethodPut:
					if c.reads {
						_, _ = io.Copy(io.Discard, r.Body)
					}
					<-over
				}
			}))
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(over); s.CloseClientConnections() })
			host := strings.TrimPrefix(s.URL, "http://")
			dir := directory(t.TempDir())
			config := dir.put(t, ocispec.MediaTypeImageConfig, make([]byte, c.size))
			m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{}}
			m.SchemaVersion = 2
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			client, err := remote.New(remote.Options{Insecure: []string{host}, Stall: 500 * time.Millisecond, Retries: -1})
			if err != nil {
				t.Fatal(err)
			}
			to, err := ref.Parse(host + "/x:1")
			if err != nil {
				t.Fatal(err)
			}
			err = client.Push(t.Context(), dir, dir.put(t, m.MediaType, b), to, remote.PushOptions{})
			if !errors.Is(err, remote.ErrStalled) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("error %v, want ErrStalled: %s", err, c.want)
			}
		})
	}
}

// TestStallsWithoutGain: a registry that drips bytes holds a request for two
// stall timeouts, whatever the number of retries; one whose attempts each bring
// something gets them all.
func TestStallsWithoutGain(t *testing.T) {
	t.Parallel()
	const retries = 7
	for name, c := range map[string]struct {
		burst       int // bytes at once in each answer
		least, most int // requests; a busy machine may hold a burst back, which is a stall
	}{"drips": {0, 2, 2}, "gains": {1000, 3, retries + 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				requests.Add(1)
				w.Header().Set("Content-Length", "1000000")
				if from := r.Header.Get("Range"); from != "" {
					at, err := strconv.Atoi(strings.Trim(from, "bytes=-"))
					if err != nil {
						t.Error(err)
					}
					w.Header().Set("Content-Length", strconv.Itoa(1000_000-at))
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-999999/1000000", at))
					w.WriteHeader(http.StatusPartialContent)
				}
				_, _ = w.Write(make([]byte, c.burst))
				for r.Context().Err() == nil {
					_, _ = w.Write([]byte{0})
					_ = http.NewResponseController(w).Flush()
					time.Sleep(20 * time.Millisecond)
				}
			}))
			t.Cleanup(s.Close)
			host := strings.TrimPrefix(s.URL, "http://")
			client, err := remote.New(remote.Options{Insecure: []string{host}, Stall: 500 * time.Millisecond, Retries: retries, Backoff: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			from, err := ref.Parse(host + "/x:1")
			if err != nil {
				t.Fatal(err)
			}
			err = client.Blob(t.Context(), from, ocispec.Descriptor{Digest: digest.FromString("x"), Size: 1000_000}, io.Discard)
			if got := int(requests.Load()); !errors.Is(err, remote.ErrStalled) || got < c.least || got > c.most {
				t.Errorf("%d requests, want %d to %d; error %v", got, c.least, c.most, err)
			}
		})
	}
}

// TestLongPause: a registry that asks for days gets another attempt after minutes,
// and the user is told of both.
func TestLongPause(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			w.Header().Set("Retry-After", "100000")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	from, err := ref.Parse(host + "/x:1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := writerFunc(func(b []byte) {
		if strings.Contains(string(b), "level=WARN") && strings.Contains(string(b), "in=2m0s") {
			cancel()
		}
	})
	for _, c := range []struct {
		ctx     context.Context
		retries int
		want    string
	}{
		{ctx, 1, context.Canceled.Error()},
		{t.Context(), -1, "503 Service Unavailable (it asks for a pause of 27h46m40s; sealer waits 2m0s at most"},
	} {
		o := remote.Options{Insecure: []string{host}, Retries: c.retries, Logger: slog.New(slog.NewTextHandler(log, nil))}
		client, err := remote.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := client.Manifest(c.ctx, from); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d retries: error %v, want %s", c.retries, err, c.want)
		}
	}
}

// writerFunc is a log's writer.
type writerFunc func(b []byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
