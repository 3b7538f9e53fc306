package plan_test

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

var update = flag.Bool("update", false, "rewrite the goldens")

func descriptor(s string) ocispec.Descriptor {
	return ocispec.Descriptor{Digest: digest.FromString(s), Size: int64(len(s))}
}

// wanted is a cluster of machines that are written ROLE ADDRESS.
func wanted(hosts ...string) (plan.Want, []plan.Node) {
	w := plan.Want{
		Verb: plan.Create, Cluster: "c1", APIDomain: "apiserver.cluster.local", APIPort: 6443,
		RegistryDomain: "sea.hub", RegistryPort: 5000, RegistryHA: true, CA: "CA\n", Program: "sha256:p",
		Full: descriptor("full"), Rootfs: descriptor("bare"), Secret: "sha256:s",
		Commands: []plan.Command{{Run: "kubectl apply -f manifests"}, {Run: "kubectl run nginx --image=nginx:latest"}},
	}
	var seen []plan.Node
	for i, h := range hosts {
		role, address, _ := strings.Cut(h, " ")
		name := "n" + string(rune('1'+i))
		host := plan.Host{Kube: name, Generation: "g" + name, Inputs: "sha256:i", Kubeadm: "kind: X\n"}
		host.Address, host.Roles = netip.MustParseAddr(address), strings.Split(role, "+")
		w.Hosts = append(w.Hosts, host)
		n := plan.Node{Facts: plan.Facts{Host: address, Hostname: name, InitSystem: "systemd", Nameservers: []string{"10.0.0.1"}}, Store: "/var/lib/sealer"}
		n.Missing = []string{"sha256:l1", "sha256:r1"}
		seen = append(seen, n)
	}
	return w, seen
}

func img() plan.Image {
	return plan.Image{
		Name: "my-app:v1", Digest: "sha256:full", Arch: "amd64", Type: "kube-installer", Private: "sea.hub:5000",
		Layers: []plan.Blob{{Digest: "sha256:l1", Size: 1000}}, Registry: []plan.Blob{{Digest: "sha256:r1", Size: 5000}},
		Hosts: []string{"docker.io", "registry.k8s.io"}, References: []string{"docker.io/library/nginx:latest", "registry.k8s.io/pause:3.10"},
		Kubernetes: "v1.33.13",
		Files: map[string]uint32{
			"bin/kubeadm": 0o755, "bin/kubelet": 0o755, "bin/kubectl": 0o755, "bin/README": 0o644, "cni/bridge": 0o755,
			"etc/kubelet.service": 0o644, "manifests/app.yaml": 0o644,
		},
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, hosts := range map[string][]string{
		"one":   {"master+node 10.0.0.2"},
		"small": {"master 10.0.0.2", "node 10.0.0.3"},
		"large": {"master 10.0.0.2", "master 10.0.0.3", "master 10.0.0.4", "node 10.0.0.5", "node 10.0.0.6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, seen := wanted(hosts...)
			p, err := plan.Make(w, img(), seen)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := p.Print(&b); err != nil {
				t.Fatal(err)
			}
			if name == "one" { // one plan with all arguments is enough to look at
				b.WriteString("\n")
				if err := p.Encode(&b); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// kinds are the steps of a host, in order.
func kinds(p *plan.Plan, host string) string {
	var out []string
	for _, s := range p.Steps {
		if s.Host == host {
			out = append(out, s.Kind)
		}
	}
	return strings.Join(out, " ")
}

// needs says whether the step a needs b, directly or through others.
func needs(p *plan.Plan, a, b plan.Step) bool {
	reach := map[string]bool{a.ID: true}
	for i := len(p.Steps) - 1; i >= 0; i-- {
		if s := p.Steps[i]; reach[s.ID] {
			for _, n := range s.Needs {
				reach[n] = true
			}
		}
	}
	return a.ID != b.ID && reach[b.ID]
}

func find(t *testing.T, p *plan.Plan, kind, host string) plan.Step {
	t.Helper()
	for _, s := range p.Steps {
		if s.Kind == kind && s.Host == host {
			return s
		}
	}
	t.Fatalf("no step %s of %s", kind, host)
	return plan.Step{}
}

func TestMastersJoinOneByOne(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "master 10.0.0.3", "master 10.0.0.4", "node 10.0.0.5")
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	second, third := find(t, p, "kubeadm.join", "10.0.0.3"), find(t, p, "kubeadm.join", "10.0.0.4")
	worker, first := find(t, p, "kubeadm.join", "10.0.0.5"), find(t, p, "kubeadm.init", "10.0.0.2")
	if !needs(p, third, second) {
		t.Error("the third master does not wait for the second")
	}
	if needs(p, worker, second) {
		t.Error("the worker waits for the second master")
	}
	if !needs(p, worker, first) {
		t.Error("the worker does not wait for the first master")
	}
	if rootfs := find(t, p, "rootfs", "10.0.0.5"); needs(p, rootfs, find(t, p, "image", "10.0.0.2")) {
		t.Error("the files of a worker wait for another machine")
	}
	guest := find(t, p, "guest", "10.0.0.2")
	if needs(p, guest, worker) {
		t.Error("a worker that fails keeps the start commands from running")
	}
	if !needs(p, guest, first) {
		t.Error("start commands do not need the control plane")
	}
}

func TestRegistriesOnlyOnMasters(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "master 10.0.0.3", "node 10.0.0.5")
	w.RegistryHA = false
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int64{"10.0.0.2": 6000, "10.0.0.3": 1000, "10.0.0.5": 1000} {
		if got := find(t, p, "image", host).Bytes; got != want {
			t.Errorf("%s is sent %d bytes, want %d", host, got, want)
		}
	}
	if got := strings.Count(kinds(p, "10.0.0.3"), "unit"); got != 2 {
		t.Errorf("the second master has %d services, want containerd and kubelet", got)
	}
}

func TestFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "node 10.0.0.3")
	for i := range seen {
		seen[i].Files = map[string]plan.File{"/usr/bin/kubeadm": {Mode: 0o755}, "/usr/bin/kubectl": {Mode: 0o755}}
	}
	_, err := plan.Make(w, img(), seen)
	if err == nil {
		t.Fatal("a foreign kubeadm is no fault")
	}
	want := `10.0.0.2: /usr/bin/kubeadm is there already and is not sealer's: remove the package that it belongs to, then run the same command again
10.0.0.3: /usr/bin/kubeadm is there already and is not sealer's: remove the package that it belongs to, then run the same command again`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestNoMaster(t *testing.T) {
	t.Parallel()
	w, seen := wanted("node 10.0.0.3")
	if _, err := plan.Make(w, img(), seen); err == nil || !strings.Contains(err.Error(), "no master") {
		t.Errorf("err = %v", err)
	}
}

func TestTaintsOfAMasterThatWorks(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master+node 10.0.0.2")
	w.Hosts[0].Taints = []string{"a=b:NoSchedule"}
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	args := string(find(t, p, "kube.label", "10.0.0.2").Args)
	for _, want := range []string{`"key":"a"`, `"key":"node-role.kubernetes.io/control-plane","remove":true`} {
		if !strings.Contains(args, want) {
			t.Errorf("%s lacks %s", args, want)
		}
	}
}

func TestWithout(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2")
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{p.Steps[0].ID: true, p.Steps[2].ID: true}
	left := p.Without(done)
	if left.Done != 2 || len(left.Steps) != len(p.Steps)-2 {
		t.Errorf("%d done, %d steps of %d left", left.Done, len(left.Steps), len(p.Steps))
	}
	if err := left.Check(); err != nil {
		t.Error(err)
	}
	if len(p.Steps[1].Needs) == 0 {
		t.Error("the whole plan was changed")
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "node 10.0.0.3")
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Encode(&b); err != nil {
		t.Fatal(err)
	}
	got, err := plan.Load(bytes.NewReader(b.Bytes()), p.Facts)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
	seen[1].Hostname = "other"
	facts, err := plan.Digest(seen)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, facts, want string }{
		"facts changed": {b.String(), facts, "the machines changed since"},
		"step changed":  {strings.Replace(b.String(), `"/etc/hosts"`, `"/etc/shadow"`, 1), p.Facts, "its id is not the digest"},
		"other version": {strings.Replace(b.String(), plan.Version, "sealer.io/plan/v9", 1), p.Facts, "want sealer.io/plan/v1"},
		"unknown field": {strings.Replace(b.String(), `"verb"`, `"word"`, 1), p.Facts, "unknown field"},
	} {
		if _, err := plan.Load(strings.NewReader(c.text), c.facts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: err = %v, want %q", name, err, c.want)
		}
	}
}

func TestDigestLeavesOutWhatChangesByItself(t *testing.T) {
	t.Parallel()
	_, seen := wanted("master 10.0.0.2")
	before, err := plan.Digest(seen)
	if err != nil {
		t.Fatal(err)
	}
	seen[0].Memory, seen[0].Listening = 7, []plan.Listener{{Port: 80}}
	if after, err := plan.Digest(seen); err != nil || after != before {
		t.Errorf("%s, %v; want %s", after, err, before)
	}
}

func TestSpecTaintsBecomeSteps(t *testing.T) {
	t.Parallel()
	w, seen := wanted("master 10.0.0.2", "node 10.0.0.3")
	w.Hosts[1].Labels = map[string]string{"disk": "ssd"}
	w.Hosts[1].Node.Roles = []string{spec.RoleNode, "ingress"}
	p, err := plan.Make(w, img(), seen)
	if err != nil {
		t.Fatal(err)
	}
	args := string(find(t, p, "kube.label", "10.0.0.2").Args)
	if !strings.Contains(args, `"disk":"ssd"`) || !strings.Contains(args, `"node-role.kubernetes.io/ingress":""`) {
		t.Error(args)
	}
}
