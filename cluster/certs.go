package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
)

// A HostCert is a certificate of a cluster's machine.
type HostCert struct {
	Host string `json:"host"`
	node.Cert
}

// Certs returns the certificates of the cluster of f, in the order of its
// machines. The certificates that could be read are returned beside an error.
func Certs(ctx context.Context, o Options, f *spec.File) ([]HostCert, error) {
	e, err := newEngine(o, f)
	if err != nil {
		return nil, err
	}
	defer e.disconnect()
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	found := map[string][]node.Cert{}
	var mu sync.Mutex
	err = e.each(ctx, e.machines, func(ctx context.Context, m *machine) error {
		var certs []node.Cert
		err := m.conn.Call(ctx, node.OpCerts, node.CertsRequest{Cluster: f.Cluster.Name}, &certs, wire.Streams{})
		mu.Lock()
		defer mu.Unlock()
		found[m.name()] = certs
		return err
	})
	var out []HostCert
	for _, m := range e.machines {
		for _, c := range found[m.name()] {
			out = append(out, HostCert{m.name(), c})
		}
	}
	return out, err
}

// RenewCerts renews the certificates of the cluster of f: those of the registries,
// which take them up at once, and on one master after the other those of kubeadm,
// whose static pods start anew. Certificate authorities stay.
func RenewCerts(ctx context.Context, o Options, f *spec.File) (_ *Report, err error) {
	e, err := newEngine(o, f)
	if err != nil {
		return nil, err
	}
	defer e.disconnect()
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	unlock, err := e.state.lock(holder(plan.Renew))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := e.adopt(ctx); err != nil {
		return nil, err
	}
	p, err := e.planRenew()
	if err != nil {
		return nil, err
	}
	r := &Report{Plan: p, Stands: true}
	if o.DryRun {
		return r, nil
	}
	if o.Confirm != nil {
		if err := o.Confirm(p); err != nil {
			return r, err
		}
	}
	img := &source{Image: plan.Image{Private: e.state.registryDomain()}}
	if err := errors.Join(e.open(ctx, plan.Renew), e.state.dropRegistryCerts()); err != nil {
		return r, err
	}
	if err := e.run(ctx, r, img); err != nil {
		return r, err
	}
	e.apiPort = e.state.apiPort()
	return r, e.kubeconfig(ctx, r)
}

// registryDomain is the name that the registries' certificates have been made
// for; "" when there is none.
func (s state) registryDomain() string {
	names, err := filepath.Glob(filepath.Join(s.dir, "pki", "registry-*.crt"))
	if err != nil || len(names) == 0 {
		return ""
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		return ""
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return ""
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return c.Subject.CommonName
}

// apiPort is the port of the API server in the operator's kubeconfig.
func (s state) apiPort() int {
	c, err := kube.ReadConfig(filepath.Join(s.dir, "kubeconfig"))
	if err != nil {
		return defaultAPIPort
	}
	u, err := url.Parse(c.Server)
	if err != nil {
		return defaultAPIPort
	}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	return defaultAPIPort
}

// defaultAPIPort is the API server's where nothing says another.
const defaultAPIPort = 6443

// planRenew makes the steps: the masters follow each other.
func (e *engine) planRenew() (*plan.Plan, error) {
	p := &plan.Plan{APIVersion: plan.Version, Verb: plan.Renew, Cluster: e.file.Cluster.Name}
	ha := true
	if l := e.file.Cluster.Registry.Local; l != nil && l.HA != nil {
		ha = *l.HA
	}
	var needs []string
	for i, m := range e.machines {
		p.Hosts = append(p.Hosts, m.name())
		if !m.Master() {
			continue
		}
		add := func(kind string, args any, risk plan.Risk, why string) error {
			s, err := plan.NewStep(kind, m.name(), args, risk, why)
			s.Needs = slices.Clone(needs)
			p.Steps, needs = append(p.Steps, s), []string{s.ID}
			return err
		}
		if ha || i == 0 {
			pki := path.Join(plan.Dir(p.Cluster), "pki")
			args := plan.FilesArgs{Files: []plan.FileArg{
				{To: path.Join(pki, "registry.crt"), Secret: plan.SecretRegistryCert, Mode: 0o644},
				{To: path.Join(pki, "registry.key"), Secret: plan.SecretRegistryKey, Mode: 0o600},
			}}
			if err := add("files", args, plan.Changes, "a new certificate of the registry"); err != nil {
				return nil, err
			}
		}
		if err := add("kubeadm.renew", struct{}{}, plan.Restarts, "new certificates of the control plane; its pods start anew"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// dropRegistryCerts forgets the certificates of the registries, so that new ones
// are made.
func (s state) dropRegistryCerts() error {
	names, err := filepath.Glob(filepath.Join(s.dir, "pki", "registry-*.crt"))
	for _, name := range names {
		if rerr := os.Remove(name); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	if err != nil {
		return fmt.Errorf("certificates of the registries: %w", err)
	}
	return nil
}
