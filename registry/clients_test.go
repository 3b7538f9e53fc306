package registry_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/bcrypt"

	"github.com/clusterimage/sealer/registry"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// requireTool skips the test where program is missing; CI, which installs all
// that .ci/packages names, does not let it.
func requireTool(t *testing.T, program, debian string) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs another program")
	}
	if _, err := exec.LookPath(program); err == nil {
		return
	}
	message := fmt.Sprintf("%s is not installed: apt-get install %s", program, debian)
	if os.Getenv("SEALER_REQUIRE_TOOLS") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
}

func output(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// few are samples of each form: Docker and OCI, list, index and manifest, with
// and without an attestation, of two registries.
func few() []registrytest.Image {
	var out []registrytest.Image
	for _, img := range samples() {
		switch img.Name {
		case "docker.io/library/nginx:latest", "docker.io/library/busybox:1.36", "docker.io/library/redis:7",
			"ghcr.io/kyverno/kyverno:v1.19.1", "quay.io/coreos/etcd:v3.5.9":
			out = append(out, img)
		}
	}
	return out
}

// TestSkopeo copies images, all platforms, through TLS and basic auth, and
// compares the manifest that arrives.
func TestSkopeo(t *testing.T) {
	t.Parallel()
	requireTool(t, "skopeo", "skopeo")
	hash, err := bcrypt.GenerateFromPassword([]byte("p"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"htpasswd": "u:" + string(hash), "policy.json": `{"default":[{"type":"insecureAcceptAnything"}]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l := writeLayer(t, tree.NamingFull, few())
	h := newHandler(t, registry.Options{Htpasswd: filepath.Join(dir, "htpasswd")}, l)
	s := serve(t, h, registry.ServerOptions{SelfSigned: true})
	certs := filepath.Join(dir, "certs")
	if err := os.Mkdir(certs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(certs, "ca.crt"), s.Certificate(), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, r := range l.Images {
		want := l.Contents[r.String()].Root.Digest
		for j, source := range []string{r.Name() + ":" + r.Tag, r.Name() + "@" + want.String()} {
			to := filepath.Join(dir, fmt.Sprint(i, "-", j))
			output(t, "skopeo", "copy", "-q", "--all", "--policy", filepath.Join(dir, "policy.json"),
				"--src-creds", "u:p", "--src-cert-dir", certs, "docker://"+s.Addr()+"/"+source, "dir:"+to)
			b, err := os.ReadFile(filepath.Join(to, "manifest.json"))
			if err != nil || digest.FromBytes(b) != want {
				t.Errorf("%s arrived as %s, want %s (%v)", source, digest.FromBytes(b), want, err)
			}
		}
	}
}

// containerd is a daemon of its own, without any service for containers. Its
// namespaces share nothing.
type containerd struct{ socket, namespace string }

func startContainerd(t *testing.T) containerd {
	t.Helper()
	requireTool(t, "containerd", "containerd")
	requireTool(t, "ctr", "containerd")
	if os.Geteuid() != 0 {
		t.Skip("containerd unpacks images as root only")
	}
	// The socket's path must be short: 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "ctrd")
	if err != nil {
		t.Fatal(err)
	}
	c := containerd{filepath.Join(dir, "s"), "default"}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[plugins."io.containerd.metadata.v1.bolt"]
content_sharing_policy = "isolated"
[grpc]
address = %q
[ttrpc]
address = %q
`, dir+"/root", dir+"/state", c.socket, c.socket+".ttrpc")
	if err := os.WriteFile(dir+"/config.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("containerd", "-c", dir+"/config.toml")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		log.Close()
		os.RemoveAll(dir)
	})
	for exec.Command("ctr", "-a", c.socket, "version").Run() != nil {
		select {
		case <-ended:
			b, _ := os.ReadFile(dir + "/log")
			t.Fatalf("containerd ended:\n%s", b)
		case <-t.Context().Done():
			t.Fatal("containerd does not answer")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return c
}

func (c containerd) run(t *testing.T, args ...string) string {
	t.Helper()
	return output(t, "ctr", append([]string{"-a", c.socket, "-n", c.namespace}, args...)...)
}

// TestContainerd lets containerd pull by the public names through hosts.toml
// files that send it to the registry: by its mirror protocol, and for full
// naming also by a path of their own. Nothing else could answer: the source
// registries cannot be reached.
func TestContainerd(t *testing.T) {
	t.Parallel()
	c := startContainerd(t)
	for name, tc := range map[string]struct {
		naming tree.Naming
		tls    bool
		below  bool // /v2/docker.io and override_path
	}{
		"path":       {tree.NamingPath, false, false},
		"path-tls":   {tree.NamingPath, true, false},
		"full":       {tree.NamingFull, false, false},
		"full-below": {tree.NamingFull, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := containerd{c.socket, name}
			l := writeLayer(t, tc.naming, few())
			s := serve(t, newHandler(t, registry.Options{}, l), registry.ServerOptions{SelfSigned: tc.tls})
			hosts := t.TempDir()
			writeHosts(t, hosts, s, l, tc.below)
			for _, r := range l.Images {
				content := l.Contents[r.String()]
				byDigest := r
				byDigest.Tag, byDigest.Digest = "", content.Root.Digest
				for _, name := range []string{r.String(), byDigest.String()} {
					c.run(t, "images", "pull", "--hosts-dir", hosts, "--snapshotter", "native", "--platform", "linux/amd64", name)
					if out := c.run(t, "images", "ls", "name=="+name); !strings.Contains(out, content.Root.Digest.String()) {
						t.Errorf("%s: containerd has\n%s\nwant %s", name, out, content.Root.Digest)
					}
				}
				checkContent(t, c, content)
			}
		})
	}
}

func writeHosts(t *testing.T, dir string, s *registry.Server, l *registrytest.DiskLayer, below bool) {
	t.Helper()
	ca := ""
	if s.Certificate() != nil {
		file := filepath.Join(dir, "ca.crt")
		if err := os.WriteFile(file, s.Certificate(), 0o644); err != nil {
			t.Fatal(err)
		}
		ca = fmt.Sprintf("  ca = %q\n", file)
	}
	for _, r := range l.Images {
		host := filepath.Join(dir, r.Registry)
		if err := os.MkdirAll(host, 0o755); err != nil {
			t.Fatal(err)
		}
		url, override := s.URL(), ""
		if below {
			url, override = url+"/v2/"+tree.HostSegment(r.Registry), "  override_path = true\n"
		}
		toml := fmt.Sprintf("server = \"http://127.0.0.1:1\"\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n%s%s", url, ca, override)
		if err := os.WriteFile(filepath.Join(host, "hosts.toml"), []byte(toml), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkContent compares every blob of the platform that was pulled.
func checkContent(t *testing.T, c containerd, content *registrytest.Content) {
	t.Helper()
	m := manifest(t, content)
	for _, d := range append([]ocispec.Descriptor{content.Manifests[0], m.Config}, m.Layers...) {
		if got := c.run(t, "content", "get", d.Digest.String()); digest.FromString(got) != d.Digest {
			t.Errorf("containerd has %d bytes of %s, want %d", len(got), d.Digest, d.Size)
		}
	}
}
