package node

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/cri"
)

// A RuntimeRequest asks what the machine's container runtime has and, where the
// machine has a registry of the cluster, whether that serves the manifests.
type RuntimeRequest struct {
	Cluster string `json:"cluster"`
	// Port is the registry's; 0 for a machine without one.
	Port      int      `json:"port,omitempty"`
	Manifests []string `json:"manifests,omitempty"` // REPOSITORY/manifests/REFERENCE
}

// A RuntimeState is the answer.
type RuntimeState struct {
	Hostname string `json:"hostname"`
	// Socket is the runtime's; "" when the machine has none.
	Socket     string          `json:"socket,omitempty"`
	Images     []cri.Image     `json:"images,omitempty"`
	Containers []cri.Container `json:"containers,omitempty"`
	// Unserved are the manifests that the registry does not serve, each with why.
	Unserved []string `json:"unserved,omitempty"`
}

// endpointRE finds the runtime's socket in the kubelet's settings.
var endpointRE = regexp.MustCompile(`(?m)(?:--container-runtime-endpoint=|^containerRuntimeEndpoint: *)"?(?:unix://)?(/[^\s"]+)`)

// sockets are where container runtimes listen, the newest first: Docker serves a
// kubelet where nothing else does.
var sockets = []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock", "/var/run/docker.sock"}

// socket finds the socket of the runtime that the kubelet uses; "" for none.
func (m *Machine) socket() string {
	for _, name := range []string{"kubeadm-flags.env", "instance-config.yaml", "config.yaml"} {
		b, err := os.ReadFile(m.Path("/var/lib/kubelet/" + name))
		if err != nil {
			continue
		}
		if found := endpointRE.FindSubmatch(b); found != nil {
			return m.Path(string(found[1]))
		}
	}
	for _, s := range sockets {
		if _, err := os.Stat(m.Path(s)); err == nil {
			return m.Path(s)
		}
	}
	return ""
}

// Runtime asks the machine's container runtime and registry. It changes nothing.
func (s *Server) Runtime(ctx context.Context, q RuntimeRequest) (RuntimeState, error) {
	m := &Machine{Root: s.o.Root, Store: s.o.Store, Cluster: q.Cluster}
	name, err := os.ReadFile(m.Path("/proc/sys/kernel/hostname"))
	if err := ignoreAbsent(err); err != nil { // absent in tests
		return RuntimeState{}, err
	}
	out := RuntimeState{Hostname: strings.TrimSpace(string(name)), Socket: m.socket()}
	if out.Socket != "" {
		r := cri.Runtime{Socket: out.Socket}
		var cerr error
		out.Images, err = r.Images(ctx)
		out.Containers, cerr = r.Containers(ctx)
		if err := errors.Join(err, cerr); err != nil {
			return out, err
		}
	}
	if q.Port > 0 {
		out.Unserved, err = unserved(ctx, filepath.Join(s.dataDir(q.Cluster), "pki", "ca.crt"), q.Port, q.Manifests)
	}
	return out, err
}

// manifestTypes are asked for, so that an index comes as it is.
const manifestTypes = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json, */*"

// unserved asks the registry of this machine for manifests.
func unserved(ctx context.Context, ca string, port int, manifests []string) ([]string, error) {
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, MaxConnsPerHost: 8,
	}}
	defer client.CloseIdleConnections()
	found := make([]string, len(manifests))
	var g errgroup.Group
	g.SetLimit(8)
	for i, name := range manifests {
		g.Go(func() error {
			if why := head(ctx, client, fmt.Sprintf("https://127.0.0.1:%d/v2/%s", port, name)); why != "" {
				found[i] = name + ": " + why
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	var out []string
	for _, f := range found {
		if f != "" {
			out = append(out, f)
		}
	}
	return out, nil
}

// head says why a manifest is not served; "" when it is.
func head(ctx context.Context, client *http.Client, url string) string {
	q, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err.Error()
	}
	q.Header.Set("Accept", manifestTypes)
	a, err := client.Do(q)
	if err != nil {
		return err.Error()
	}
	if err := a.Body.Close(); err != nil {
		return err.Error()
	}
	if a.StatusCode != http.StatusOK {
		return a.Status
	}
	return ""
}
