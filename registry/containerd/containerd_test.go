package containerd_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/containerd"
)

// start runs a containerd of its own and returns its socket.
func start(t *testing.T) string {
	t.Helper()
	for _, program := range []string{"containerd", "ctr"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("SEALER_REQUIRE_TOOLS") != "" {
				t.Fatal(err)
			}
			t.Skipf("%v: apt-get install containerd", err)
		}
	}
	if os.Geteuid() != 0 || testing.Short() {
		t.Skip("runs containerd, as root only")
	}
	dir, err := os.MkdirTemp("/tmp", "ctrd") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	config := fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = %[2]q
[ttrpc]
address = "%[2]s.ttrpc"
`, dir, socket)
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("containerd", "-c", dir+"/config.toml")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for exec.Command("ctr", "-a", socket, "version").Run() != nil {
		select {
		case <-t.Context().Done():
			t.Fatal("containerd does not answer")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return socket
}

func dial(t *testing.T, socket string) *containerd.Client {
	t.Helper()
	c, err := containerd.Dial(t.Context(), socket, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// A cutReader fails after some bytes.
type cutReader struct {
	*bytes.Reader
	left int
}

var errCut = errors.New("cut")

func (c *cutReader) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, errCut
	}
	n, err := c.Reader.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

func blob(t *testing.T, size int) ([]byte, ocispec.Descriptor) {
	t.Helper()
	b := make([]byte, size)
	_, _ = rand.Read(b) // it never fails
	return b, ocispec.Descriptor{MediaType: "application/octet-stream", Digest: digest.FromBytes(b), Size: int64(size)}
}

func TestPut(t *testing.T) {
	t.Parallel()
	socket := start(t)
	c := dial(t, socket)
	if created, err := c.EnsureNamespace(t.Context()); !created || err != nil {
		t.Errorf("EnsureNamespace = %v, %v", created, err)
	}
	if created, err := c.EnsureNamespace(t.Context()); created || err != nil {
		t.Errorf("EnsureNamespace again = %v, %v", created, err)
	}
	c, release, err := c.Lease(t.Context(), "purpose")
	if err != nil {
		t.Fatal(err)
	}

	// A blob that broke off goes on where containerd's bytes end.
	content, desc := blob(t, 5<<20+17)
	sent, err := c.Put(t.Context(), desc, nil, &cutReader{bytes.NewReader(content), 3 << 20})
	if !errors.Is(err, errCut) || sent != 3<<20 {
		t.Errorf("cut: %d bytes, %v", sent, err)
	}
	if _, there, err := c.Labels(t.Context(), desc.Digest); there || err != nil {
		t.Errorf("a half blob is there: %v, %v", there, err)
	}
	sent, err = c.Put(t.Context(), desc, map[string]string{"a": "b"}, bytes.NewReader(content))
	if err != nil || sent != 2<<20+17 {
		t.Errorf("resumed: %d bytes, %v; want %d", sent, err, 2<<20+17)
	}
	labels, there, err := c.Labels(t.Context(), desc.Digest)
	if !there || err != nil || labels["a"] != "b" {
		t.Errorf("labels %v, %v, %v", labels, there, err)
	}
	if err := c.AddLabels(t.Context(), desc.Digest, map[string]string{"c.d/e": "f"}); err != nil {
		t.Error(err)
	}
	if labels, _, err = c.Labels(t.Context(), desc.Digest); err != nil || labels["a"] != "b" || labels["c.d/e"] != "f" {
		t.Errorf("labels %v, %v", labels, err)
	}
	if sent, err = c.Put(t.Context(), desc, nil, bytes.NewReader(content)); sent != 0 || err != nil {
		t.Errorf("again: %d bytes, %v", sent, err)
	}
	got, err := exec.Command("ctr", "-a", socket, "-n", "test", "content", "get", desc.Digest.String()).Output()
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("ctr has %d bytes, %v", len(got), err)
	}

	// Wrong bytes of an earlier run cost one more try, no more.
	content, desc = blob(t, 2<<20)
	wrong := bytes.Repeat([]byte("x"), 2<<20)
	if _, err := c.Put(t.Context(), desc, nil, &cutReader{bytes.NewReader(wrong), 1 << 20}); !errors.Is(err, errCut) {
		t.Error(err)
	}
	if sent, err = c.Put(t.Context(), desc, nil, bytes.NewReader(content)); err != nil || sent != 3<<20 {
		t.Errorf("after wrong bytes: %d sent, %v", sent, err)
	}

	// Content of another digest, too short, empty.
	_, desc = blob(t, 1000)
	if _, err = c.Put(t.Context(), desc, nil, bytes.NewReader(wrong[:1000])); !errors.Is(err, containerd.ErrDigest) {
		t.Errorf("wrong content: %v", err)
	}
	if _, err = c.Put(t.Context(), desc, nil, bytes.NewReader(wrong[:10])); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("short content: %v", err)
	}
	empty := ocispec.Descriptor{Digest: digest.FromBytes(nil)}
	if _, err = c.Put(t.Context(), empty, nil, bytes.NewReader(nil)); err != nil {
		t.Errorf("empty content: %v", err)
	}
	if err := c.Keep(t.Context(), empty.Digest); err != nil {
		t.Error(err)
	}

	// Two writers of one blob.
	content, desc = blob(t, 4<<20)
	var errs [2]error
	done := make(chan struct{})
	go func() { errs[1] = put(t.Context(), c, desc, content); close(done) }()
	errs[0] = put(t.Context(), c, desc, content)
	<-done
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	content, desc = blob(t, 10)
	if _, err := c.Put(ctx, desc, nil, bytes.NewReader(content)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	out, err := exec.Command("ctr", "-a", socket, "-n", "test", "leases", "ls", "-q").CombinedOutput()
	if err != nil || strings.Contains(string(out), "sealer") {
		t.Errorf("leases %s, %v", out, err)
	}
}

func put(ctx context.Context, c *containerd.Client, d ocispec.Descriptor, b []byte) error {
	_, err := c.Put(ctx, d, nil, bytes.NewReader(b))
	return err
}

func TestName(t *testing.T) {
	t.Parallel()
	c := dial(t, start(t))
	_, a := blob(t, 1)
	_, b := blob(t, 2)
	for i, step := range []struct {
		target  ocispec.Descriptor
		changed bool
	}{{a, true}, {a, false}, {b, true}, {a, true}} {
		if changed, err := c.Name(t.Context(), "docker.io/library/x:1", step.target); changed != step.changed || err != nil {
			t.Errorf("step %d: %v, %v", i, changed, err)
		}
	}
}

// Servers that are no containerd, and sockets that are none.
func TestDial(t *testing.T) {
	t.Parallel()
	if _, err := containerd.Dial(t.Context(), filepath.Join(t.TempDir(), "none"), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	dir, err := os.MkdirTemp("/tmp", "ctrd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, answer := range map[string]string{
		"http1": "HTTP/1.1 200 OK\r\n\r\n",
		"none":  "",
		// A SETTINGS frame, and then a frame longer than any.
		"frame": "\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00\x01",
	} {
		socket := filepath.Join(dir, name)
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		c, err := containerd.Dial(t.Context(), "unix://"+socket, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.EnsureNamespace(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
