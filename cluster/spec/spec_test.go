package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const whole = `apiVersion: sealer.io/v2
kind: Cluster
metadata:
  name: prod
  labels: {team: a}
spec:
  image: kubernetes:v1.33.13
  env:
    - CertSANS=a
    - CertSANS=b
  cmd_args: [A=1]
  cmd: [kubectl apply -f x]
  appNames: [nginx]
  ssh:
    user: ops
    passwd: ${env:SSH_PW}
    port: "2222"
    agent: false
    knownHosts: /etc/known
    jump: me@gate:22
  hosts:
    - ips: [10.0.0.1-10.0.0.3]
      roles: [master]
      labels: {zone: a}
      taints: ["dedicated=x:NoSchedule"]
    - ips: [10.0.0.9:22, "fd00::1"]
      roles: [node]
      env: [CertSANS=c]
      ssh: {user: root, passwd: plain}
  containerRuntime: {type: containerd}
  hostAliases:
    - ip: 10.1.1.1
      hostnames: [nas]
  registry:
    localRegistry:
      domain: sea.hub
      port: 5000
      username: u
      password: ${file:/etc/pw}
      ha: false
      cert: {subjectAltName: {dnsNames: [r.example], ips: [10.0.0.1]}}
  dataRoot: /data/sealer
  apiServer: {domain: api.local, balancer: local}
  rollout: {workers: 10%, drainTimeout: 5m, pause: 1s}
  distribution: {mode: star, rate: 50M}
---
apiVersion: sealer.io/v1
kind: Config
metadata: {name: values}
spec: {path: etc/values.yaml, strategy: merge, process: "value|toBase64", data: "a: 1\n", appName: nginx}
---
apiVersion: sealer.aliyun.com/v1alpha1
kind: Plugin
metadata: {name: SHELL}
spec: {action: PostInstall|PreInit, on: role=master, scope: master, data: ip a}
---
apiVersion: sealer.io/v2
kind: Application
metadata: {name: apps}
spec:
  launchApps: [nginx]
  configs:
    - name: nginx
      env: [A=1]
      files: [{path: values.yaml, strategy: render, data: x}]
      launch: {cmds: [helm install nginx .]}
---
apiVersion: kubeadm.k8s.io/v1beta3
kind: InitConfiguration
nodeRegistration: {taints: []}
localAPIEndpoint: {bindPort: 6443}
---
apiVersion: sealer.io/v2
kind: Preflight
spec:
  thresholds: {clock: 5s}
  skip: [{check: memory, reason: a test machine}]
`

func parse(t *testing.T, text string) *File {
	t.Helper()
	f, err := Parse("Clusterfile", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseWhole(t *testing.T) {
	t.Parallel()
	f := parse(t, whole)
	if err := Validate(f); err != nil {
		t.Error(err)
	}
	c := f.Cluster
	if c.Name != "prod" || c.SSH.Port != 2222 || *c.SSH.Agent || c.Registry.Local.Port != 5000 || *c.Registry.Local.HA {
		t.Errorf("%+v", c)
	}
	if f.Plugins[0].Type != "SHELL" || !cmp.Equal(f.Plugins[0].Actions(), []string{"PostInstall", "PreInit"}) {
		t.Errorf("%+v", f.Plugins)
	}
	if got := f.Kubeadm[0].Tree["localAPIEndpoint"]; !cmp.Equal(got, map[string]any{"bindPort": int64(6443)}) {
		t.Errorf("%#v", got)
	}
	if len(f.Warnings) != 0 {
		t.Errorf("%v", f.Warnings)
	}
}

func TestNodes(t *testing.T) {
	t.Parallel()
	c := parse(t, whole).Cluster
	nodes, err := c.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range nodes {
		p, _ := n.SSH.Passwd.Resolve(Sources{Env: func(string) (string, bool) { return "secret", true }})
		got = append(got, strings.Join([]string{n.Address.String(), n.SSH.User, p, strings.Join(n.Roles, ","), strings.Join(n.Env, " ")}, " | "))
	}
	want := []string{
		"10.0.0.1 | ops | secret | master | CertSANS=a CertSANS=b",
		"10.0.0.2 | ops | secret | master | CertSANS=a CertSANS=b",
		"10.0.0.3 | ops | secret | master | CertSANS=a CertSANS=b",
		"10.0.0.9 | root | plain | node | CertSANS=c",
		"fd00::1 | root | plain | node | CertSANS=c",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if nodes[3].SSH.Port != 22 || nodes[4].SSH.Port != 2222 {
		t.Errorf("ports %d %d", nodes[3].SSH.Port, nodes[4].SSH.Port)
	}
}

func TestPrintRoundTrip(t *testing.T) {
	t.Parallel()
	f := parse(t, whole)
	text, err := Print(f)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "plain") {
		t.Errorf("the password was printed:\n%s", text)
	}
	f.Cluster.Hosts[1].SSH.Passwd = NewSecret(Redacted)
	again := parse(t, string(text))
	if d := cmp.Diff(f, again, cmpopts.IgnoreUnexported(File{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	cluster := "apiVersion: sealer.io/v2\nkind: Cluster\nmetadata: {name: a}\nspec:\n"
	for _, c := range []struct{ name, text, want string }{
		{"kind", "apiVersion: sealer.io/v2\nkind: Clsuter\n", `Clusterfile:2: unknown kind "Clsuter": did you mean "Cluster"?`},
		{"no kind", "a: 1\n", `Clusterfile:1: the document has no kind`},
		{"group", "apiVersion: apps/v1\nkind: Cluster\n", `Clusterfile:2: apiVersion apps/v1 is none of sealer's`},
		{"no version", "kind: Config\n", `Clusterfile:1: the Config has no apiVersion`},
		{"field", cluster + "  imagee: x\n", `Clusterfile:5: unknown field "imagee" in spec: did you mean "image"?`},
		{"deep field", cluster + "  hosts:\n  - ip: [1.2.3.4]\n", `Clusterfile:6: unknown field "ip" in spec.hosts[0]: did you mean "ips"?`},
		{"beside spec", cluster + "  image: x\nhosts: []\n", `Clusterfile:6: unknown field "hosts" in the document`},
		{"name in spec", cluster + "  name: x\n", `Clusterfile:5: unknown field "name" in spec`},
		{"type", cluster + "  ssh: {port: x}\n", `Clusterfile:5: spec.ssh.port must be a number, not "x"`},
		{"list", cluster + "  image: [a, b]\n", `Clusterfile:5: spec.image must be one value, not a list`},
		{"mapping", cluster + "  hosts: {ips: [1.2.3.4]}\n", `Clusterfile:5: spec.hosts must be a list, not a mapping: begin each entry with "- "`},
		{"secret", cluster + "  ssh: {passwd: [a]}\n", `Clusterfile:5: spec.ssh.passwd must be one value`},
		{"duration", cluster + "  rollout: {pause: soon}\n", `Clusterfile:5: spec.rollout.pause: time: invalid duration`},
		{"twice", cluster + "  image: a\n  image: b\n", `Clusterfile:6: "image" stands twice: keep one of them`},
		{"two clusters", cluster + "---\n" + cluster, `Clusterfile:7: a second Cluster: keep one of them`},
		{"cloud", cluster + "  provider: ALI_CLOUD\n", `Clusterfile:5: provider ALI_CLOUD: sealer makes no machines`},
		{"count", "apiVersion: sealer.io/v1\nkind: Cluster\nspec:\n  masters: {count: 3}\n", `Clusterfile:4: spec.masters has no ipList: sealer makes no machines`},
		{"syntax", cluster + "  a: b: c\n", `Clusterfile:5: not YAML: mapping values are not allowed`},
		{"scalar", "hello\n", `Clusterfile:1: a document must be a mapping`},
		{"bomb", "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e]\nkind: InitConfiguration\n", `more than 200000 values`},
		{"deep", "kind: InitConfiguration\na: " + strings.Repeat("[", 70) + strings.Repeat("]", 70) + "\n", `Clusterfile:2: more than 200000 values, or nested deeper than 64`},
		{"itself", "kind: InitConfiguration\na: &a [*a]\n", `nested deeper than 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("Clusterfile", []byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
			if n := strings.Count(err.Error(), "\n"); n != 0 {
				t.Errorf("%d faults too many: %v", n, err)
			}
		})
	}
}

func TestFaultsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse("f", []byte("apiVersion: sealer.io/v2\nkind: Cluster\nspec:\n  foo: 1\n  ssh: {port: x}\n---\nkind: Bar\n---\nkind: Baz\n"))
	var lines []int
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		var f *Fault
		if errors.As(e, &f) {
			lines = append(lines, f.Line)
		}
	}
	if d := cmp.Diff([]int{4, 5, 7, 9}, lines); d != "" {
		t.Error(d)
	}
}

func TestVersionOne(t *testing.T) {
	t.Parallel()
	f := parse(t, `apiVersion: sealer.aliyun.com/v1alpha1
kind: Cluster
metadata: {name: my-cluster, creationTimestamp: null}
spec:
  image: kubernetes:v1.19.8
  provider: BAREMETAL
  ssh: {passwd: x}
  network: {podCIDR: 100.64.0.0/10, svcCIDR: 10.96.0.0/22, interface: eth0}
  certSANS: [example.com]
  masters: {ipList: [172.17.1.1]}
  nodes: {ipList: [172.17.1.2, 172.17.1.3]}
status: {}
`)
	want := []Host{{IPs: []string{"172.17.1.1"}, Roles: []string{"master"}}, {IPs: []string{"172.17.1.2", "172.17.1.3"}, Roles: []string{"node"}}}
	if d := cmp.Diff(want, f.Cluster.Hosts); d != "" {
		t.Error(d)
	}
	docs := []Document{{Kind: "ClusterConfiguration", Tree: map[string]any{
		"networking": map[string]any{"podSubnet": "100.64.0.0/10", "serviceSubnet": "10.96.0.0/22"},
		"apiServer":  map[string]any{"certSANs": []any{"example.com"}},
	}}}
	if d := cmp.Diff(docs, f.Kubeadm); d != "" {
		t.Error(d)
	}
	if len(f.Warnings) != 1 || f.Warnings[0].Line != 8 {
		t.Errorf("warnings %v", f.Warnings)
	}
	if err := Validate(f); err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	head := "apiVersion: sealer.io/v2\nkind: Cluster\nmetadata: {name: a}\nspec:\n  image: i\n"
	master := "  hosts: [{ips: [10.0.0.1], roles: [master]}]\n"
	config := head + master + "---\napiVersion: sealer.io/v1\nkind: Config\nmetadata: {name: c}\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "Clusterfile: the cluster's name"},
		{"no master", head + "  hosts: [{ips: [10.0.0.1], roles: [node]}]\n", "Clusterfile:6: no host is a master"},
		{"role", head + "  hosts: [{ips: [10.0.0.1], roles: [mastr]}]\n", `Clusterfile:6: the host is neither master nor node: roles are mastr: did you mean "master"?`},
		{"address", head + "  hosts:\n  - roles: [master]\n    ips:\n    - 10.0.0.300\n", `Clusterfile:9: "10.0.0.300": "10.0.0.300" is no address`},
		{"same address", head + master[:len(master)-2] + ", {ips: [10.0.0.1:22], roles: [node]}]\n", "Clusterfile:6: 10.0.0.1 stands twice"},
		{"env", head + master + "  env:\n  - A=1\n  - hunter2\n", "Clusterfile:9: entry 2 of spec.env has no key: write KEY=VALUE"},
		{"runtime", head + master + "  containerRuntime: {type: dokcer}\n", `unknown containerRuntime.type "dokcer": did you mean "docker"?`},
		{"balancer", head + master + "  apiServer: {balancer: external}\n", "Clusterfile:7: balancer external needs an endpoint"},
		{"endpoint", head + master + "  apiServer: {balancer: external, endpoint: lb}\n", `endpoint "lb" cannot be read`},
		{"password alone", head + master + "  registry: {localRegistry: {username: u}}\n", "username and password go together"},
		{"root", head + master + "  dataRoot: /\n", "Clusterfile:7: dataRoot"},
		{"taint", head + "  hosts: [{ips: [10.0.0.1], roles: [master], taints: ['a=b:NoSchedul']}]\n", `unknown effect "NoSchedul": did you mean "NoSchedule"?`},
		{"path", config + "spec: {path: ../etc/passwd}\n", `Clusterfile:11: path "../etc/passwd" leaves the rootfs`},
		{"absolute", config + "spec: {path: /etc/passwd}\n", "leaves the rootfs"},
		{"process", config + "spec: {path: a, process: toBase46}\n", `did you mean "toBase64"?`},
		{"reason", head + master + "---\napiVersion: sealer.io/v2\nkind: Preflight\nspec: {skip: [{check: x}]}\n", `Clusterfile:10: check "x" is skipped without a reason`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := Validate(parse(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	flags, err := Flags{Nodes: "10.0.0.7-10.0.0.8", Env: []string{"A=flag"}, Passwd: NewSecret("x"), Name: "n"}.File()
	if err != nil {
		t.Fatal(err)
	}
	file := parse(t, whole)
	image := parse(t, "apiVersion: sealer.io/v2\nkind: Cluster\nspec:\n  env: [A=image, B=image]\n  dataRoot: /other\n---\n"+
		"apiVersion: sealer.io/v1\nkind: Config\nmetadata: {name: values}\nspec: {path: no}\n---\nkind: InitConfiguration\nx: 1\n")
	before, _ := Print(file)
	m := Merge(flags, file, image, Defaults("127.0.0.1"))
	c := m.Cluster
	if c.Name != "n" || c.DataRoot != "/data/sealer" || c.SSH.User != "ops" || len(m.Configs) != 1 || m.Configs[0].Path != "etc/values.yaml" || len(m.Kubeadm) != 2 {
		t.Errorf("%+v", m)
	}
	if p, _ := c.SSH.Passwd.Resolve(Sources{}); p != "x" {
		t.Errorf("password %s of another layer", p)
	}
	if d := cmp.Diff([]string{"B=image", "CertSANS=a", "CertSANS=b", "A=flag"}, c.Env); d != "" {
		t.Error(d)
	}
	var ips []string
	for _, h := range c.Hosts {
		ips = append(ips, h.IPs...)
	}
	if d := cmp.Diff([]string{"10.0.0.1-10.0.0.3", "10.0.0.7-10.0.0.8"}, ips); d != "" {
		t.Error(d)
	}
	if after, _ := Print(file); string(after) != string(before) {
		t.Errorf("Merge changed its input:\n%s", cmp.Diff(string(before), string(after)))
	}
}

func TestFlagFaults(t *testing.T) {
	t.Parallel()
	_, err := Flags{Masters: "a", Nodes: "10.0.0.9-10.0.0.1"}.File()
	if err == nil || !strings.Contains(err.Error(), "--masters: ") || !strings.Contains(err.Error(), "--nodes: ") {
		t.Error(err)
	}
}

func TestParseAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want string }{
		{"10.0.0.1,10.0.0.3", "10.0.0.1:0 10.0.0.3:0"},
		{"10.0.0.254-10.0.1.1", "10.0.0.254:0 10.0.0.255:0 10.0.1.0:0 10.0.1.1:0"},
		{"10.0.0.1:2222-10.0.0.2", "10.0.0.1:2222 10.0.0.2:2222"},
		{"fd00::1-fd00::2, [fd00::9]:23", "[fd00::1]:0 [fd00::2]:0 [fd00::9]:23"},
		{"::ffff:10.0.0.1", "10.0.0.1:0"},
		{"10.0.0.1-10.1.0.1", "more than 4096"},
		{"10.0.0.1-fd00::1", "different families"},
		{"10.0.0.1:70000", "the port must be"},
		{"host.example", "is no address"},
		{"0.0.0.0", "not the address of a machine"},
		{"fe80::1%eth0", "not the address of a machine"},
		{"255.255.255.250-255.255.255.255", "255.255.255.250:0 255.255.255.251:0 255.255.255.252:0 255.255.255.253:0 255.255.255.254:0 255.255.255.255:0"},
	} {
		got, err := ParseAddresses(c.in)
		var words []string
		for _, a := range got {
			words = append(words, a.String())
		}
		text := strings.Join(words, " ")
		if err != nil {
			text = err.Error()
		}
		if text != c.want && (err == nil || !strings.Contains(text, c.want)) {
			t.Errorf("%s: got %s, want %s", c.in, text, c.want)
		}
	}
}
