package node

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The runtime is the one that the kubelet was told of, else one that is there.
func TestSocket(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, content, want string }{
		"flags":     {"var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--x=y --container-runtime-endpoint=unix:///run/own.sock --z"`, "run/own.sock"},
		"last flag": {"var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/own.sock"`, "run/own.sock"},
		"settings":  {"var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix:///run/own.sock\n", "run/own.sock"},
		"quoted":    {"var/lib/kubelet/config.yaml", "containerRuntimeEndpoint: \"/run/own.sock\"\n", "run/own.sock"},
		"a socket":  {"run/crio/crio.sock", "", "run/crio/crio.sock"},
		"none":      {"etc/x", "", ""},
	} {
		m := &Machine{Root: t.TempDir()}
		write(t, m.Path(c.file), c.content)
		want := c.want
		if want != "" {
			want = m.Path(want)
		}
		if got := m.socket(); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestRuntimeOfRegistry(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || !strings.Contains(r.Header.Get("Accept"), "image.index") || r.URL.Path != "/v2/library/nginx/manifests/latest" {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(ServerOptions{Root: t.TempDir()})
	write(t, filepath.Join(server.dataDir("c"), "pki", "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	write(t, filepath.Join(server.o.Root, "proc/sys/kernel/hostname"), "n1\n")
	q := RuntimeRequest{Cluster: "c", Port: n, Manifests: []string{"library/nginx/manifests/latest", "pause/manifests/3.10"}}
	got, err := server.Runtime(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got.Hostname != "n1" || got.Socket != "" || len(got.Unserved) != 1 || got.Unserved[0] != "pause/manifests/3.10: 404 Not Found" {
		t.Errorf("%+v", got)
	}
	s.Close()
	if got, err = server.Runtime(t.Context(), q); err != nil || len(got.Unserved) != 2 {
		t.Errorf("without a registry: %+v, %v", got, err)
	}
	write(t, filepath.Join(server.o.Root, "run/crio/crio.sock"), "")
	if _, err = server.Runtime(t.Context(), q); err == nil || !strings.Contains(err.Error(), "container runtime ") {
		t.Errorf("a socket that nobody serves: %v", err)
	}
}
