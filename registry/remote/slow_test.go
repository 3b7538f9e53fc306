package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
		"does not answer": {true, 1 << 10, "the registry does not answer"},
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
			client, err := remote.New(remote.Options{Insecure: []string{host}, Stall: 50 * time.Millisecond, Retries: -1})
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
