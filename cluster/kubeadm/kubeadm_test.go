package kubeadm

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/spec"
)

func version(t *testing.T, s string) Version {
	t.Helper()
	v, err := ParseVersion(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"v1.33.13": "v1.33.13", "1.33.1": "v1.33.1", "1.33": "v1.33.0", "v1.34.0-rc.1": "v1.34.0-rc.1", "v1.28.3+k3s1": "v1.28.3+k3s1",
		"": "", "latest": "", "stable-1": "", "v1": "", "v1.2.3.4": "", "v99999.1.1": "",
	} {
		v, err := ParseVersion(in)
		if (err != nil) != (want == "") || err == nil && v.String() != want {
			t.Errorf("%q: %v, %v", in, v, err)
		}
	}
}

func TestAPIVersion(t *testing.T) {
	t.Parallel()
	for v, want := range map[string]string{
		"v1.14.0": "", "v1.15.0": v1beta2, "v1.21.9": v1beta2, "v1.22.0": v1beta3, "v1.30.1": v1beta3, "v1.31.0": v1beta4, "v1.36.0": v1beta4, "v2.0.0": "",
	} {
		if got, err := APIVersion(version(t, v)); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %s, %v", v, got, err)
		}
	}
}

func TestSkew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f        func(a, b Version) error
		a, b, ok string
	}{
		{Skew, "v1.33.0", "v1.30.0", ""},
		{Skew, "v1.33.0", "v1.29.0", "upgrade the node first"},
		{Skew, "v1.26.0", "v1.23.0", "more than 2 minor"},
		{Skew, "v1.26.0", "v1.24.0", ""},
		{Skew, "v1.28.0", "v1.25.0", ""},
		{Skew, "v1.33.0", "v1.34.0", "newer than the API server"},
		{JoinSkew, "v1.33.1", "v1.33.9", ""},
		{JoinSkew, "v1.33.1", "v1.32.9", "join with an image of 1.33"},
		{Upgrade, "v1.33.1", "v1.34.0", ""},
		{Upgrade, "v1.33.1", "v1.33.9", ""},
		{Upgrade, "v1.30.1", "v1.33.0", "images of 1.31 1.32 first"},
		{Upgrade, "v1.33.1", "v1.32.0", "does not go back"},
	} {
		err := c.f(version(t, c.a), version(t, c.b))
		if c.ok == "" && err != nil || c.ok != "" && (!errors.Is(err, ErrSkew) || !strings.Contains(err.Error(), c.ok)) {
			t.Errorf("%s %s: %v, want %q", c.a, c.b, err, c.ok)
		}
	}
}

func TestMaterial(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 100 {
		token, err := NewToken()
		if err != nil || !tokenRE.MatchString(token) || seen[token] {
			t.Fatal(token, err)
		}
		seen[token] = true
		key, err := NewCertificateKey()
		if b, bad := hex.DecodeString(key); err != nil || bad != nil || len(b) != 32 || seen[key] {
			t.Fatal(key, err)
		}
		seen[key] = true
	}
	if TokenID("abcdef.0123456789abcdef") != "abcdef" {
		t.Error(TokenID("abcdef.0123456789abcdef"))
	}
}

func TestCAHash(t *testing.T) {
	t.Parallel()
	// The hash of this certificate by the command of kubeadm's documentation:
	// openssl x509 -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256
	got, err := CAHash([]byte(knownCA))
	if err != nil || got != knownHash {
		t.Errorf("%s, %v, want %s", got, err, knownHash)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "x", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}))} {
		if h, err := CAHash([]byte(bad)); err == nil {
			t.Errorf("%q: %s", bad, h)
		}
	}
}

func one(kind, api string, t tree) []spec.Document {
	return []spec.Document{{APIVersion: api, Kind: kind, Tree: t}}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"too old", Options{Version: version(t, "v1.14.1")}, "use Kubernetes 1.15 or later"},
		{"version", Options{Version: version(t, "v1.33.1"), Clusterfile: one(kindCluster, v1beta4, tree{"kubernetesVersion": "v1.32.0"})},
			"kubernetesVersion v1.32.0: the image brings v1.33.1"},
		{"api", Options{Version: version(t, "v1.33.1"), Clusterfile: one(kindInit, "kubeadm.k8s.io/v9", tree{})}, "unknown apiVersion kubeadm.k8s.io/v9"},
		{"too new", Options{Version: version(t, "v1.27.1"), Clusterfile: one(kindInit, v1beta4, tree{"timeouts": tree{"discovery": "1m"}})},
			"timeouts came with kubeadm.k8s.io/v1beta4"},
		{"argument twice", Options{Version: version(t, "v1.27.1"), Clusterfile: one(kindCluster, v1beta4, tree{"apiServer": tree{"extraArgs": []any{
			tree{"name": "a", "value": "1"}, tree{"name": "a", "value": "2"}}}})}, "the argument a stands twice"},
		{"no mapping", Options{Version: version(t, "v1.33.1"), Clusterfile: one(kindInit, v1beta4, tree{"nodeRegistration": "x"})},
			"InitConfiguration: nodeRegistration must be a mapping, not x"},
		{"no list", Options{Version: version(t, "v1.33.1"), Image: one(kindCluster, v1beta4, tree{"apiServer": tree{"certSANs": "x"}})},
			"ClusterConfiguration: apiServer.certSANs must be a list"},
		{"no text", Options{Version: version(t, "v1.33.1"), Clusterfile: one(kindCluster, v1beta4, tree{"apiServer": tree{"certSANs": []any{tree{"a": "b"}, tree{"a": "b"}}}})},
			"ClusterConfiguration: apiServer.certSANs: map[a:b] is no text"},
		{"argument without a name", Options{Version: version(t, "v1.27.1"), Clusterfile: one(kindInit, v1beta4, tree{"nodeRegistration": tree{"kubeletExtraArgs": []any{"v=2"}}})},
			"an argument has no name"},
		{"cgroup", Options{Version: version(t, "v1.35.0"), CgroupV1: true}, "kubelet v1.35.0 does not start on cgroup v1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Init(c.o, n, material); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	good := Options{Version: version(t, "v1.33.1")}
	bad := Material{Token: "hunter2"}
	if _, err := Init(good, n, bad); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
	if _, err := Join(good, n, Material{Token: material.Token}, "a:1", true); err == nil || !strings.Contains(err.Error(), "CA") || !strings.Contains(err.Error(), "certificate key") {
		t.Error(err)
	}
}

// find returns the tree of a kind.
func find(t *testing.T, d Documents, kind string) tree {
	t.Helper()
	for _, doc := range d.List {
		if doc.Kind == kind {
			return doc.Tree
		}
	}
	t.Fatalf("no %s", kind)
	return nil
}

func TestCgroupV1(t *testing.T) {
	t.Parallel()
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	for _, o := range []Options{
		{Version: version(t, "v1.35.0"), CgroupV1: true, AllowCgroupV1: true},
		{Version: version(t, "v1.35.0"), CgroupV1: true, Clusterfile: one(kindKubelet, "kubelet.config.k8s.io/v1beta1", tree{"failCgroupV1": false})},
	} {
		d, err := Init(o, n, material)
		if err != nil {
			t.Fatal(err)
		}
		ignored := at(find(t, d, kindInit), "nodeRegistration", "ignorePreflightErrors")
		if find(t, d, kindKubelet)["failCgroupV1"] != false || !cmp.Equal(ignored, []any{"SystemVerification"}) {
			t.Errorf("%v", d.List)
		}
	}
	d, err := Init(Options{Version: version(t, "v1.34.0"), CgroupV1: true}, n, material)
	if err != nil || find(t, d, kindKubelet)["failCgroupV1"] != nil {
		t.Errorf("1.34: %v, %v", d.List, err)
	}
}

func TestCoreDNS(t *testing.T) {
	t.Parallel()
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	for _, c := range []struct {
		version string
		cluster tree
		want    any
	}{
		{"v1.33.0", tree{}, nil},
		{"v1.33.0", tree{"imageRepository": "registry.k8s.io"}, nil},
		{"v1.33.0", tree{"imageRepository": "sea.hub:5000"}, "sea.hub:5000/coredns"},
		{"v1.33.0", tree{"imageRepository": "sea.hub:5000", "dns": tree{"imageRepository": "x"}}, "x"},
		{"v1.20.0", tree{"imageRepository": "sea.hub:5000"}, nil},
	} {
		d, err := Init(Options{Version: version(t, c.version), Image: one(kindCluster, "", c.cluster)}, n, material)
		if err != nil {
			t.Fatal(err)
		}
		if got := at(find(t, d, kindCluster), "dns", "imageRepository"); got != c.want {
			t.Errorf("%s %v: %v, want %v", c.version, c.cluster, got, c.want)
		}
	}
}

// A JoinConfiguration of the Clusterfile is for all machines; its control plane
// is for masters.
func TestWorkersGetNoControlPlane(t *testing.T) {
	t.Parallel()
	o := Options{Version: version(t, "v1.33.1"), Clusterfile: one(kindJoin, v1beta4, tree{"controlPlane": tree{"localAPIEndpoint": tree{"bindPort": int64(7443)}}})}
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	for master, want := range map[bool]any{true: int64(7443), false: nil} {
		d, err := Join(o, n, material, "10.0.0.9:6443", master)
		if err != nil {
			t.Fatal(err)
		}
		doc := find(t, d, kindJoin)
		if _, has := doc["controlPlane"]; has != master || at(doc, "controlPlane", "localAPIEndpoint", "bindPort") != want {
			t.Errorf("master %t: %v", master, doc)
		}
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	d, err := Init(Options{
		Version: version(t, "v1.33.1"), CgroupDriver: "systemd",
		Image: append(one(kindCluster, v1beta2, tree{"kubernetesVersion": "v1.19.8"}), one(kindKubelet, "", tree{"cgroupDriver": "cgroupfs"})...),
	}, Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}, material)
	if err != nil || len(d.Warnings) != 2 {
		t.Errorf("%v, %v", d.Warnings, err)
	}
	if find(t, d, kindCluster)["kubernetesVersion"] != "v1.33.1" {
		t.Errorf("%v", d.List)
	}
}

func TestOldKubeadmConfig(t *testing.T) {
	t.Parallel()
	f, err := spec.Parse("Clusterfile", []byte(`apiVersion: sealer.cloud/v2
kind: KubeadmConfig
metadata: {name: c}
spec:
  nodeRegistration: {ignorePreflightErrors: [Swap]}
  networking: {podSubnet: 10.9.0.0/16}
  apiServer: {timeoutForControlPlane: 9m0s}
  maxPods: 50
  mode: ipvs
`))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Version: version(t, "v1.33.1"), Clusterfile: f.Kubeadm}
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	d, err := Init(o, n, material)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		at(find(t, d, kindInit), "nodeRegistration", "ignorePreflightErrors"), at(find(t, d, kindCluster), "networking", "podSubnet"),
		find(t, d, kindKubelet)["maxPods"], find(t, d, kindProxy)["mode"], at(find(t, d, kindInit), "timeouts", "controlPlaneComponentHealthCheck"),
		at(find(t, d, kindCluster), "apiServer", "timeoutForControlPlane"),
	}
	if diff := cmp.Diff([]any{[]any{"Swap"}, "10.9.0.0/16", int64(50), "ipvs", "9m0s", nil}, got); diff != "" {
		t.Error(diff)
	}
}

func TestFill(t *testing.T) {
	t.Parallel()
	o := Options{Version: version(t, "v1.33.1")}
	n := Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1")}
	for name, f := range map[string]func(Material) (Documents, error){
		"init":   func(m Material) (Documents, error) { return Init(o, n, m) },
		"master": func(m Material) (Documents, error) { return Join(o, n, m, "10.0.0.9:6443", true) },
		"worker": func(m Material) (Documents, error) { return Join(o, n, m, "10.0.0.9:6443", false) },
	} {
		want := yamlOf(t, f, material)
		bare := yamlOf(t, f, Material{})
		for _, secret := range []string{material.Token, material.CertificateKey} {
			if strings.Contains(bare, secret) {
				t.Errorf("%s holds a secret:\n%s", name, bare)
			}
		}
		got, err := material.Fill([]byte(bare))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, string(got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := material.Fill([]byte("kind: KubeletConfiguration\n")); err == nil {
		t.Error("a file without kubeadm's documents was filled")
	}
}

func yamlOf(t *testing.T, f func(Material) (Documents, error), m Material) string {
	t.Helper()
	d, err := f(m)
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAPIServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    Options
		host string
		port int
	}{
		{Options{}, "apiserver.cluster.local", 6443},
		{Options{Endpoint: "lb:8443"}, "lb", 8443},
		{Options{Clusterfile: one(kindCluster, "", tree{"controlPlaneEndpoint": "x:1"}), Image: one(kindCluster, "", tree{"controlPlaneEndpoint": "y:2"})}, "x", 1},
		{Options{Endpoint: "lb:8443", Clusterfile: one(kindCluster, "", tree{"controlPlaneEndpoint": "x:1"})}, "lb", 8443},
		{Options{Endpoint: "name"}, "name", 6443},
		{Options{Endpoint: "[fd00::1]:6443"}, "fd00::1", 6443},
	} {
		host, port, err := c.o.APIServer()
		if host != c.host || port != c.port || err != nil {
			t.Errorf("%+v: %s %d %v", c.o, host, port, err)
		}
	}
	if _, _, err := (Options{Endpoint: "a:b"}).APIServer(); err == nil {
		t.Error("a port of letters was taken")
	}
}

func TestOptionsStay(t *testing.T) {
	t.Parallel()
	docs := one(kindInit, v1beta3, tree{"nodeRegistration": tree{"kubeletExtraArgs": tree{"v": int64(2)}}, "patches": tree{"directory": "p"}})
	before := clone(docs[0].Tree)
	o := Options{Version: version(t, "v1.33.1"), Clusterfile: docs, Rootfs: "/r"}
	for range 2 {
		if _, err := Init(o, Node{Name: "m", Address: netip.MustParseAddr("10.0.0.1"), Worker: true}, material); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(before, clone(docs[0].Tree)); d != "" {
		t.Errorf("Init changed its input: %s", d)
	}
}

const knownHash = "sha256:c2b8fff095d815c5c553e0dc486a91f5865670e16099e144490ea5ee18651797"

const knownCA = `-----BEGIN CERTIFICATE-----
MIIBgTCCASegAwIBAgIUD5hTv6/ClSlu0/H6NLPAv3TW+zcwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKa3ViZXJuZXRlczAgFw0yNjExMjIwMTEwNDdaGA8yMTI2MTAy
OTAxMTA0N1owFTETMBEGA1UEAwwKa3ViZXJuZXRlczBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABDMNcJ9KjvZ/oyksankzWyclXMiO5CCVd5Zy63dexjCPvdwSI8Tx
E1QVN7VScDCyVYfhZvMXO6CKj5WSv1tGB/OjUzBRMB0GA1UdDgQWBBRZTBDDAlTh
yd70w5q390MwqyBtRDAfBgNVHSMEGDAWgBRZTBDDAlThyd70w5q390MwqyBtRDAP
BgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0gAMEUCIGn0G2fLmpXK6JbhOP2E
L7FQBc+YvyvN/cQwRfFAqHygAiEAsy3qYTmSIuMTBJpQ35/l7xQ8e3lnKaG6A6tp
CGfSdSM=
-----END CERTIFICATE-----
`
