package node

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/clusterimage/sealer/cluster/kube"
)

// A CertsRequest asks for the certificates of a cluster.
type CertsRequest struct {
	Cluster string `json:"cluster"`
}

// A Cert is a certificate on the machine.
type Cert struct {
	Path    string    `json:"path"`
	Subject string    `json:"subject"`
	CA      bool      `json:"ca,omitempty"`
	Until   time.Time `json:"until"`
	// By says who renews it: kubeadm and sealer do at "sealer cert renew",
	// kubelet does by itself, nobody renews kubeadm's authorities.
	By string `json:"by"`
}

// Who renews a certificate.
const (
	byKubeadm = "kubeadm"
	byKubelet = "kubelet"
	bySealer  = "sealer"
	byNobody  = "nobody"
)

// Certs returns the certificates of the cluster on the machine, by path. A file
// that cannot be read is an error; the others are returned beside it.
func (s *Server) Certs(q CertsRequest) ([]Cert, error) {
	m := &Machine{Root: s.o.Root}
	var out []Cert
	var errs []error
	for _, place := range []struct{ pattern, by string }{
		{"/etc/kubernetes/pki/*.crt", byKubeadm}, {"/etc/kubernetes/pki/etcd/*.crt", byKubeadm}, {"/etc/kubernetes/*.conf", byKubeadm},
		{"/var/lib/kubelet/pki/kubelet-client-current.pem", byKubelet}, {"/var/lib/kubelet/pki/kubelet.crt", byKubelet},
		{filepath.Join(DefaultBase, "data", q.Cluster, "pki", "*.crt"), bySealer},
	} {
		names, err := filepath.Glob(m.Path(place.pattern))
		errs = append(errs, err)
		for _, name := range names {
			c, err := readCert(name)
			if err != nil {
				errs = append(errs, fmt.Errorf("certificate %s: %w", name, err))
				continue
			}
			if c == nil {
				continue
			}
			rel, err := filepath.Rel(m.Root, name)
			errs = append(errs, err)
			by := place.by
			if c.IsCA && by == byKubeadm {
				by = byNobody
			}
			out = append(out, Cert{Path: "/" + rel, Subject: c.Subject.CommonName, CA: c.IsCA, Until: c.NotAfter.UTC(), By: by})
		}
	}
	slices.SortFunc(out, func(a, b Cert) int { return strings.Compare(a.Path, b.Path) })
	return out, errors.Join(errs...)
}

// readCert reads the first certificate of a PEM file or the client's of a
// kubeconfig; nil for a kubeconfig that names a file instead.
func readCert(name string) (*x509.Certificate, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(name, ".conf") {
		var config struct {
			Users []struct {
				User struct {
					Certificate []byte `json:"client-certificate-data"`
				} `json:"user"`
			} `json:"users"`
		}
		if err := yaml.Unmarshal(b, &config); err != nil {
			return nil, errors.New("it is no kubeconfig") // the decoder's error quotes values
		}
		b = nil
		for _, u := range config.Users {
			b = append(b, u.User.Certificate...)
		}
		if len(b) == 0 {
			return nil, nil
		}
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("it holds no certificate")
}

// renewKind renews the certificates that kubeadm has made on a master, and
// starts the programs anew that read theirs only when they start.
type renewKind struct{}

func (renewKind) Check(context.Context, *Work, json.RawMessage) (bool, error) { return false, nil }

// manifestDir has the static pods of a master.
const manifestDir = "/etc/kubernetes/manifests"

func (renewKind) Do(ctx context.Context, w *Work, _ json.RawMessage) error {
	if _, err := os.Stat(w.adminConf()); err != nil {
		return fmt.Errorf("the machine is no master: %w", err)
	}
	if err := w.run(ctx, program{Args: []string{"kubeadm", "certs", "renew", "all"}}); err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if err := w.restartStatic(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// renewedAt is the annotation whose change makes the kubelet start a static pod
// anew.
const renewedAt = "sealer.io/certificates-renewed"

// restartStatic has the kubelet replace a static pod, and waits until the API
// server of this machine shows the new one as ready. The manifest is replaced in
// one move, and never missing.
func (w *Work) restartStatic(ctx context.Context, name string) error {
	file := filepath.Join(w.Path(manifestDir), name+".yaml")
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) { // etcd of somebody else
		return nil
	}
	if err != nil {
		return err
	}
	stamp := time.Now().UTC().Format(time.RFC3339Nano)
	if b, err = annotated(b, stamp); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	// The kubelet reads every file of the directory, so the new one is made above.
	tmp := filepath.Join(filepath.Dir(w.Path(manifestDir)), "."+name+".yaml.sealer-new")
	if err := errors.Join(os.WriteFile(tmp, b, 0o600), os.Rename(tmp, file)); err != nil {
		return err
	}
	limited, cancel := context.WithTimeoutCause(ctx, staticWithin, fmt.Errorf("not within %v", staticWithin))
	defer cancel()
	for {
		err := w.staticRuns(limited, name, stamp)
		if err == nil {
			return nil
		}
		select {
		case <-limited.Done():
			return fmt.Errorf("static pod %s with its new certificate: %w: %w", name, context.Cause(limited), err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// staticWithin bounds the wait for a static pod that was replaced.
const staticWithin = 3 * time.Minute

// annotated returns the manifest of a pod with the annotation.
func annotated(manifest []byte, stamp string) ([]byte, error) {
	var pod map[string]any
	if err := yaml.Unmarshal(manifest, &pod); err != nil {
		return nil, err
	}
	meta, ok := pod["metadata"].(map[string]any)
	if !ok {
		return nil, errors.New("it is no pod")
	}
	notes, ok := meta["annotations"].(map[string]any)
	if !ok {
		notes = map[string]any{}
		meta["annotations"] = notes
	}
	notes[renewedAt] = stamp
	return yaml.Marshal(pod)
}

// staticRuns returns nil when the pod of this machine that has the stamp is
// ready.
func (w *Work) staticRuns(ctx context.Context, name, stamp string) error {
	k, err := w.newKube()
	if err != nil {
		return err
	}
	return stampedReady(ctx, k, name, stamp)
}

func stampedReady(ctx context.Context, k *kube.Client, name, stamp string) error {
	var pods objectList
	if err := k.Do(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/pods?labelSelector=component%3D"+name, "", nil, &pods); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.Metadata.Annotations[renewedAt] != stamp {
			continue
		}
		if ok, why := p.ready(); !ok {
			return errors.New(why)
		}
		return nil
	}
	return errors.New("the kubelet has not started it yet")
}
