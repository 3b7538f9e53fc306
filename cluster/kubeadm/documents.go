package kubeadm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/clusterimage/sealer/cluster/spec"
)

// The kinds of documents.
const (
	kindInit    = "InitConfiguration"
	kindCluster = "ClusterConfiguration"
	kindJoin    = "JoinConfiguration"
	kindKubelet = "KubeletConfiguration"
	kindProxy   = "KubeProxyConfiguration"
)

// DefaultEndpoint is the API server's name and port where nothing gives one.
const DefaultEndpoint = "apiserver.cluster.local:6443"

// Options are the inputs that the documents of all machines of a cluster share.
type Options struct {
	Version Version // of the image's kubeadm

	// Documents count from the first to the last layer: the Clusterfile's, then the
	// documents of the image's etc/kubeadm.yml.
	Clusterfile []spec.Document
	Image       []spec.Document

	Endpoint string   // host:port of the API server; "" is DefaultEndpoint, unless a document names one
	SANs     []string // names and addresses beside the masters' own, the endpoint's and 127.0.0.1
	Masters  []Node   // all that will be; their names and addresses are in the certificate
	Rootfs   string   // where the rootfs lies on the machines; relative patches directories are below

	// CgroupDriver is the container runtime's, systemd or cgroupfs; a document
	// that says otherwise is overruled with a warning. "" leaves it to them.
	CgroupDriver string
	// CgroupV1 says that a machine has cgroup v1, which a kubelet since 1.35
	// refuses. With AllowCgroupV1 it is told to run nevertheless.
	CgroupV1, AllowCgroupV1 bool
	// ReadOnlySysctl says that kube-proxy cannot write nf_conntrack_max, as in
	// containers and network namespaces: it is told not to.
	ReadOnlySysctl bool
}

// A Node is one machine.
type Node struct {
	Name      string
	Address   netip.Addr
	Worker    bool   // a master that runs workloads too: without the taint
	CRISocket string // "" is the documents' word, else containerd's
}

// Documents are the input of one kubeadm command.
type Documents struct {
	List     []spec.Document
	Warnings []string // values of a document that were not taken over
}

// YAML returns the documents as one file.
func (d Documents) YAML() ([]byte, error) {
	var b bytes.Buffer
	for i, doc := range d.List {
		if i > 0 {
			b.WriteString("---\n")
		}
		text, err := doc.YAML()
		if err != nil {
			return nil, err
		}
		b.Write(text)
	}
	return b.Bytes(), nil
}

// A builder makes the documents of one command.
type builder struct {
	Options
	api      string
	layers   []spec.Document // of the target API version, highest first
	warnings []string
	errs     []error
}

func (o Options) builder() (*builder, error) {
	api, err := APIVersion(o.Version)
	if err != nil {
		return nil, err
	}
	b := &builder{Options: o, api: api}
	b.checkVersion()
	for _, d := range slices.Concat(o.Clusterfile, o.Image) {
		for _, part := range split(d, api) {
			c, err := convert(part, api)
			b.layers = append(b.layers, c)
			b.errs = append(b.errs, err)
		}
	}
	b.patchesDirectory()
	return b, nil
}

// checkVersion compares the documents' kubernetesVersion with the image's.
func (b *builder) checkVersion() {
	for i, docs := range [][]spec.Document{b.Clusterfile, b.Image} {
		for _, d := range docs {
			s := text(d.Tree, "kubernetesVersion")
			if s == "" {
				continue
			}
			v, err := ParseVersion(s)
			switch {
			case err == nil && v == b.Version:
			case i == 0:
				b.errs = append(b.errs, fmt.Errorf("%s: kubernetesVersion %s: the image brings %s: remove the line or use another image", d.Kind, s, b.Version))
			default:
				b.warnings = append(b.warnings, fmt.Sprintf("etc/kubeadm.yml says kubernetesVersion %s; the image's kubeadm is %s, and that is used", s, b.Version))
			}
		}
	}
}

// patchesDirectory makes relative directories ones of the rootfs.
func (b *builder) patchesDirectory() {
	for i, d := range b.layers {
		if dir := text(d.Tree, "patches", "directory"); dir != "" && !path.IsAbs(dir) {
			b.layers[i].Tree = clone(d.Tree).(tree)
			sub(b.layers[i].Tree, "patches")["directory"] = path.Join(cmp.Or(b.Rootfs, "/"), dir)
		}
	}
}

// merged lays all documents of a kind over defaults.
func (b *builder) merged(kind string, defaults tree) tree {
	out := defaults
	for _, d := range slices.Backward(b.layers) {
		if d.Kind == kind {
			out = merge(d.Tree, out)
		}
	}
	return out
}

// endpoint returns the API server's host:port as the documents will say.
func (o Options) endpoint(layers []spec.Document) string {
	for _, d := range layers {
		if e := text(d.Tree, "controlPlaneEndpoint"); d.Kind == kindCluster && e != "" && o.Endpoint == "" {
			return e
		}
	}
	return cmp.Or(o.Endpoint, DefaultEndpoint)
}

// APIServer returns host and port under which all machines will know the API
// server, for their hosts files and balancers.
func (o Options) APIServer() (host string, port int, err error) {
	e := o.endpoint(slices.Concat(o.Clusterfile, o.Image))
	host, p, err := net.SplitHostPort(e)
	if err != nil {
		return e, 6443, nil // kubeadm takes an endpoint without a port
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("controlPlaneEndpoint %q: the port must be between 1 and 65535", e)
	}
	return host, port, nil
}

// Init makes the documents of kubeadm init on the first master. With the zero
// Material they have no secrets: Fill adds them on the machine. The errors are
// joined.
func Init(o Options, n Node, m Material) (Documents, error) {
	b, err := o.builder()
	if err != nil {
		return Documents{}, err
	}
	first := b.merged(kindInit, tree{})
	b.node(first, n)
	local := sub(first, "localAPIEndpoint")
	local["advertiseAddress"] = n.Address.String()
	b.port(local)
	b.secrets(m, func() error { return m.fillInit(first) })
	kubelet := b.kubelet(first)
	docs := []spec.Document{
		b.document(kindInit, first), b.document(kindCluster, b.cluster()),
		{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: kindKubelet, Tree: kubelet},
		{APIVersion: "kubeproxy.config.k8s.io/v1alpha1", Kind: kindProxy, Tree: b.proxy()},
	}
	return Documents{docs, b.warnings}, errors.Join(b.errs...)
}

// Join makes the document of kubeadm join. server is host:port of an API server
// that answers already. With the zero Material the document has no secrets:
// Fill adds them on the machine.
func Join(o Options, n Node, m Material, server string, master bool) (Documents, error) {
	b, err := o.builder()
	if err != nil {
		return Documents{}, err
	}
	doc := b.merged(kindJoin, tree{})
	b.node(doc, n)
	discovery := sub(doc, "discovery")
	delete(discovery, "file")
	sub(discovery, "bootstrapToken")["apiServerEndpoint"] = server
	delete(doc, "controlPlane")
	if master {
		control := sub(b.merged(kindJoin, tree{}), "controlPlane")
		local := sub(control, "localAPIEndpoint")
		local["advertiseAddress"] = n.Address.String()
		b.port(local)
		doc["controlPlane"] = control
	}
	b.secrets(m, func() error { return m.fillJoin(doc) })
	b.kubelet(doc) // its preflight rules; the configuration itself is the cluster's
	return Documents{[]spec.Document{b.document(kindJoin, doc)}, b.warnings}, errors.Join(b.errs...)
}

// secrets fills in material, where there is some.
func (b *builder) secrets(m Material, fill func() error) {
	if m.Token != "" || m.CertificateKey != "" {
		b.errs = append(b.errs, fill())
	}
}

// port makes the API server listen where the endpoint says, unless a document
// or an external balancer says otherwise.
func (b *builder) port(local tree) {
	if _, ok := local["bindPort"]; !ok {
		local["bindPort"] = int64(6443)
	}
}

// node fills nodeRegistration: the parts that differ from machine to machine.
func (b *builder) node(doc tree, n Node) {
	reg := sub(doc, "nodeRegistration")
	reg["name"] = n.Name
	socket := cmp.Or(n.CRISocket, text(reg, "criSocket"), "/run/containerd/containerd.sock")
	if b.Version.before(24) { // before 1.24 a path, later a URL
		socket = strings.TrimPrefix(socket, "unix://")
	} else if !strings.Contains(socket, "://") {
		socket = "unix://" + socket
	}
	reg["criSocket"] = socket
	if n.Worker {
		reg["taints"] = []any{}
	}
	ip := []any{tree{"name": "node-ip", "value": n.Address.String()}}
	all := byName(ip, argList(reg["kubeletExtraArgs"]))
	b.putArgs(reg, "kubeletExtraArgs", all)
}

// putArgs stores arguments in the form of the API version.
func (b *builder) putArgs(in tree, key string, all []any) {
	if b.api == v1beta4 {
		in[key] = all
		return
	}
	m, err := argMap(all)
	if err != nil {
		b.errs = append(b.errs, fmt.Errorf("%s: %w", key, err))
	}
	in[key] = m
}

// document puts arguments into the target's form.
func (b *builder) document(kind string, t tree) spec.Document {
	for _, p := range args() {
		if in := parent(t, p); in != nil && in[p[len(p)-1]] != nil {
			b.putArgs(in, p[len(p)-1], argList(in[p[len(p)-1]]))
		}
	}
	return spec.Document{APIVersion: b.api, Kind: kind, Tree: t}
}

func (b *builder) cluster() tree {
	doc := b.merged(kindCluster, tree{})
	endpoint := b.endpoint(b.layers)
	doc["kubernetesVersion"] = b.Version.String()
	doc["controlPlaneEndpoint"] = endpoint
	sans := []any{"127.0.0.1"}
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		sans = append(sans, host)
	} else {
		sans = append(sans, endpoint)
	}
	for _, m := range b.Masters {
		sans = append(sans, m.Address.String(), m.Name)
	}
	server := sub(doc, "apiServer")
	server["certSANs"] = union(list(server["certSANs"]), anyList(b.SANs), sans)
	b.coreDNS(doc)
	return doc
}

// coreDNS names CoreDNS's repository. Since 1.21 kubeadm's own registry has it
// at coredns/coredns, but kubeadm asks any other imageRepository for coredns;
// a mirror has it where kubeadm's registry has.
func (b *builder) coreDNS(doc tree) {
	repository := text(doc, "imageRepository")
	public := repository == "" || repository == "registry.k8s.io" || repository == "k8s.gcr.io"
	if dns := sub(doc, "dns"); !b.Version.before(21) && !public && text(dns, "imageRepository") == "" {
		dns["imageRepository"] = strings.TrimSuffix(repository, "/") + "/coredns"
	}
	if len(sub(doc, "dns")) == 0 {
		delete(doc, "dns")
	}
}

// kubelet makes KubeletConfiguration. registration is the document that holds
// nodeRegistration; preflight errors to ignore go there.
func (b *builder) kubelet(registration tree) tree {
	doc := b.merged(kindKubelet, tree{})
	said := text(doc, "cgroupDriver")
	if b.CgroupDriver != "" {
		if said != "" && said != b.CgroupDriver {
			b.warnings = append(b.warnings, fmt.Sprintf("KubeletConfiguration says cgroupDriver %s; the container runtime uses %s, and so does the kubelet", said, b.CgroupDriver))
		}
		doc["cgroupDriver"] = b.CgroupDriver
	}
	if b.CgroupV1 && !b.Version.before(35) {
		b.cgroupV1(doc, registration)
	}
	return doc
}

// cgroupV1 is the rule of kubernetes/kubernetes#134298: a kubelet since 1.35
// ends at once on cgroup v1 unless failCgroupV1 is false, and kubeadm's
// SystemVerification refuses the machine.
func (b *builder) cgroupV1(doc, registration tree) {
	if fail, said := doc["failCgroupV1"].(bool); !b.AllowCgroupV1 && (!said || fail) {
		b.errs = append(b.errs, fmt.Errorf("kubelet %s does not start on cgroup v1: boot the machine with systemd.unified_cgroup_hierarchy=1, "+
			"or write failCgroupV1: false in KubeletConfiguration", b.Version))
		return
	}
	doc["failCgroupV1"] = false
	reg := sub(registration, "nodeRegistration")
	reg["ignorePreflightErrors"] = union(list(reg["ignorePreflightErrors"]), []any{"SystemVerification"})
}

func (b *builder) proxy() tree {
	defaults := tree{}
	if b.ReadOnlySysctl {
		defaults["conntrack"] = tree{"maxPerCore": int64(0), "min": int64(0)}
	}
	return b.merged(kindProxy, defaults)
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func anyList(l []string) []any {
	out := []any{}
	for _, s := range l {
		out = append(out, s)
	}
	return out
}
