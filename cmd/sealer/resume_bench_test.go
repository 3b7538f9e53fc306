package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/perf/figure"
)

// BenchmarkResume builds a ClusterImage with a container image whose one layer has
// 1 GiB, over a link that is cut every 100 MB. The build is killed at each cut.
func BenchmarkResume(b *testing.B) {
	const size, cut = 1 << 30, 100_000_000
	for range b.N {
		link := newCutLink(b, size, cut)
		dir := b.TempDir()
		host := strings.TrimPrefix(link.URL, "http://")
		for name, content := range map[string]string{
			"Kubefile": "FROM scratch\nCOPY imageList manifests\n", "imageList": host + "/big:v1\n",
			"registries.conf": fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", host),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		kills := 0
		for !link.build(b, dir) {
			if kills++; kills > 2*size/cut {
				b.Fatal("the build makes no progress")
			}
		}
		ratio := float64(link.sent.Load()) / size
		b.ReportMetric(ratio, "sent/size")
		b.ReportMetric(float64(kills), "kills")
		if err := figure.Add(figure.Figure{Name: fmt.Sprintf("resume/bytes sent, %d kills", kills), Value: float64(link.sent.Load()) / 1e6, Unit: "MB", Peer: "the blob", PeerValue: size / 1e6, Goal: new(1.02)}); err != nil {
			b.Error(err)
		}
		if ratio > 1.02 {
			b.Errorf("%d bytes sent for %d", link.sent.Load(), int64(size))
		}
	}
}

// A cutLink is a registry with one image behind a link that breaks off.
type cutLink struct {
	*httptest.Server
	block []byte // the layer is size bytes of its repetition
	size  int64
	cut   int64
	sent  atomic.Int64 // bytes of the layer
	broke chan struct{}
}

func newCutLink(b *testing.B, size, cut int64) *cutLink {
	b.Helper()
	l := &cutLink{block: make([]byte, 16<<20), size: size, cut: cut, broke: make(chan struct{}, 1)}
	_, _ = rand.Read(l.block)
	sum := sha256.New()
	for n := int64(0); n < size; n += int64(len(l.block)) {
		sum.Write(l.block)
	}
	layer := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.NewDigest(digest.SHA256, sum), Size: size}
	config := []byte(`{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["` + layer.Digest.String() + `"]}}`)
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		b.Fatal(err)
	}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
			_, _ = w.Write(manifest)
		case strings.HasSuffix(r.URL.Path, layer.Digest.String()):
			l.send(w, r)
		case strings.Contains(r.URL.Path, "/blobs/"):
			_, _ = w.Write(config)
		}
	}))
	b.Cleanup(l.Close)
	return l
}

func (l *cutLink) send(w http.ResponseWriter, r *http.Request) {
	var from int64
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
	w.Header().Set("Content-Length", fmt.Sprint(l.size-from))
	if from > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, l.size-1, l.size))
		w.WriteHeader(http.StatusPartialContent)
	}
	end := min(from+l.cut, l.size)
	for at := from; at < end; {
		in := l.block[at%int64(len(l.block)):]
		n, err := w.Write(in[:min(int64(len(in)), end-at)])
		l.sent.Add(int64(n))
		if at += int64(n); err != nil {
			return
		}
	}
	if end < l.size {
		_ = http.NewResponseController(w).Flush()
		select {
		case l.broke <- struct{}{}:
		default: // a second attempt before the kill
		}
		panic(http.ErrAbortHandler)
	}
}

// build runs sealer build, and kills it a moment after the link broke. It reports
// whether the build came to its end.
func (l *cutLink) build(b *testing.B, dir string) bool {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	ctx, kill := context.WithCancel(b.Context())
	defer kill()
	cmd := exec.CommandContext(ctx, self, "build", "--platform", "linux/amd64", "-t", "big:v1", dir)
	cmd.Args[0] = "sealer" // see testscript.Main
	cmd.Env = append(os.Environ(), "SEALER_ROOT="+filepath.Join(dir, ".store"), "CONTAINERS_REGISTRIES_CONF="+filepath.Join(dir, "registries.conf"), "NO_PROXY=127.0.0.1")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &out
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	select {
	case <-l.broke:
		time.Sleep(100 * time.Millisecond) // as long as it takes to notice
		kill()
		err = <-done
	case err = <-done:
	}
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Exited()) {
		b.Fatalf("%v\n%s", err, out.String())
	}
	select {
	case <-l.broke: // of the attempt that the kill ended
	default:
	}
	return err == nil
}
