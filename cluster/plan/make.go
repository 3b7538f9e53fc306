package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/spec"
)

// Make compares the wanted cluster with the machines as they were seen. It
// reads no file and asks no machine. All faults are reported together, machine
// by machine in the order of want.Hosts.
//
// The plan has every step, whether its result is there or not: the engine asks
// the machines which steps are done and leaves them out (see Plan.Without).
func Make(want Want, img Image, seen []Node) (*Plan, error) {
	facts, err := Digest(seen)
	if err != nil {
		return nil, err
	}
	m := &maker{want: want, img: img, seen: map[string]Node{}, last: map[string]string{}}
	m.plan = &Plan{APIVersion: Version, Verb: want.Verb, Cluster: want.Cluster, Image: img.Name, Digest: img.Digest, Facts: facts}
	for _, n := range seen {
		m.seen[n.Host] = n
	}
	for _, h := range want.Hosts {
		m.plan.Hosts = append(m.plan.Hosts, h.Address.String())
		if _, ok := m.seen[h.Address.String()]; !ok {
			m.fault(h, "nothing is known of it")
		}
	}
	if len(want.Hosts) == 0 || !want.Hosts[0].Master() {
		m.faults = append(m.faults, errors.New("the cluster has no master: name one with --masters, or under hosts with the role master"))
	}
	if len(m.faults) > 0 {
		return nil, errors.Join(m.faults...)
	}
	for _, h := range want.Hosts {
		if !m.isMember(h) {
			m.prepare(h)
		}
	}
	m.rollout()
	m.control()
	m.workload()
	if err := errors.Join(m.faults...); err != nil {
		return nil, err
	}
	return m.plan, m.plan.Check()
}

// A maker collects the steps of one plan. The steps of one machine follow each
// other.
type maker struct {
	want   Want
	img    Image
	seen   map[string]Node
	plan   *Plan
	last   map[string]string // by host: the ID of its last step
	init   string            // the ID of the step that makes the control plane
	faults []error
	// pending are steps of other machines that the first master's next step
	// needs.
	pending []string
	// gate are steps that the steps of a machine after its image need.
	gate []string
}

func (m *maker) fault(h Host, format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("%s: "+format, append([]any{h.Address}, args...)...))
}

func (m *maker) first() Host { return m.want.Hosts[0] }

// add appends a step of a host and returns its ID. The step needs the host's
// last step and the steps of needs.
func (m *maker) add(h Host, kind string, args any, risk Risk, why string, needs ...string) string {
	host := h.Address.String()
	s, err := NewStep(kind, host, args, risk, why)
	if err != nil {
		m.faults = append(m.faults, err)
		return ""
	}
	if last := m.last[host]; last != "" {
		needs = append(needs, last)
	}
	if h.Address == m.first().Address {
		needs, m.pending = append(needs, m.pending...), nil
	}
	for _, n := range needs {
		if n != "" && !slices.Contains(s.Needs, n) {
			s.Needs = append(s.Needs, n)
		}
	}
	m.plan.Steps = append(m.plan.Steps, s)
	m.last[host] = s.ID
	return s.ID
}

// prepare makes the steps of one machine that wait for no other: stations 7 to
// 14.
func (m *maker) prepare(h Host) {
	m.plugins(h, extend.Originally)
	m.bringImage(h)
	m.add(h, "program", ProgramArgs{Version: m.want.Program}, Adds, "sealer, for the services of this machine", m.gate...)
	m.add(h, "rootfs", RootfsArgs{Image: m.descriptor(h).Digest, Generation: h.Generation, Inputs: h.Inputs}, Adds, "files of the image, generation "+h.Generation)
	if h.Name != "" && h.Name != m.seen[h.Address.String()].Hostname {
		m.add(h, "hostname", HostnameArgs{Name: h.Name}, Changes, "host name "+h.Name)
	}
	m.names(h)
	m.kernel(h)
	m.programs(h)
	m.plugins(h, extend.PreInstall)
	m.plugins(h, extend.PreInit)
	m.add(h, "files", FilesArgs{Files: []FileArg{{To: m.caFile(), Content: m.want.CA, Mode: 0o644}}}, Adds, "certificate authority of the registry")
	if m.hasRegistry(h) {
		m.registry(h)
	}
	if !h.Master() && m.want.External == "" {
		m.balancer(h)
	}
	m.runtime(h)
	m.kubelet(h)
}

// hasRegistry says whether the machine serves the cluster's registry.
func (m *maker) hasRegistry(h Host) bool {
	return h.Master() && (m.want.RegistryHA || h.Address == m.first().Address)
}

// registries are the machines with a registry; one that has its own asks that
// first.
func (m *maker) registries(h Host) []Host {
	var out []Host
	for _, r := range m.want.Hosts {
		switch {
		case !m.hasRegistry(r):
		case r.Address == h.Address:
			out = append([]Host{r}, out...)
		default:
			out = append(out, r)
		}
	}
	return out
}

func (m *maker) names(h Host) {
	address := func(h Host) string { return h.Address.String() }
	lines := []string{address(h) + " " + h.Kube}
	for _, o := range m.want.Hosts {
		if o.Master() && o.Address != h.Address {
			lines = append(lines, address(o)+" "+o.Kube)
		}
	}
	lines = append(lines, address(m.registries(h)[0])+" "+m.want.RegistryDomain)
	for _, a := range m.want.Aliases {
		lines = append(lines, a.IP+" "+strings.Join(a.Hostnames, " "))
	}
	m.add(h, "block", BlockArgs{File: "/etc/hosts", Mark: m.want.Cluster + " names", Lines: lines}, Changes, "names of masters and registry in /etc/hosts")
	api := BlockArgs{File: "/etc/hosts", Mark: m.want.Cluster + " api", Lines: []string{m.apiAddress(h) + " " + m.want.APIDomain}}
	if h.Master() && h.Address != m.first().Address {
		// Until it has an API server of its own, the first master's.
		api.Later, api.Lines = api.Lines, []string{address(m.first()) + " " + m.want.APIDomain}
	}
	m.add(h, "block", api, Changes, "name of the API server in /etc/hosts")
	if len(m.seen[address(h)].Nameservers) == 0 {
		// CoreDNS ends where resolv.conf names no server; one that refuses every
		// question is enough for it.
		m.add(h, "block", BlockArgs{File: "/etc/resolv.conf", Mark: m.want.Cluster, Lines: []string{"nameserver " + address(h)}}, Changes,
			"a name server in /etc/resolv.conf, which CoreDNS does not start without")
	}
}

// apiAddress is where a machine reaches the API server for good.
func (m *maker) apiAddress(h Host) string {
	switch {
	case h.Master():
		return h.Address.String()
	case m.want.External != "":
		host, _, _ := strings.Cut(m.want.External, ":")
		return host
	}
	return "127.0.0.1"
}

func (m *maker) kernel(h Host) {
	m.add(h, "modules", ModulesArgs{Names: []string{"overlay", "br_netfilter"}}, Adds, "kernel modules overlay and br_netfilter")
	m.add(h, "sysctl", SysctlArgs{Values: map[string]string{
		"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1",
	}}, Changes, "kernel parameters net.ipv4.ip_forward and net.bridge.bridge-nf-call-iptables")
}

// programs links the image's programs in bin and its CNI plugins. A program
// that the machine has already stays. A foreign kubeadm or kubelet is a fault,
// because the cluster must run the image's.
func (m *maker) programs(h Host) {
	links := map[string]string{}
	for _, f := range slices.Sorted(maps.Keys(m.img.Files)) {
		to := target(f)
		if to == "" || m.img.Files[f]&0o111 == 0 {
			continue
		}
		have, there := m.seen[h.Address.String()].Files[to]
		switch name := path.Base(to); {
		case !there || have.Ours:
			links[to] = f
		case name == "kubeadm" || name == "kubelet":
			m.fault(h, "%s is there already and is not sealer's: remove the package that it belongs to, then run the same command again", to)
		}
	}
	if len(links) > 0 {
		m.add(h, "links", LinksArgs{Generation: h.Generation, Links: links}, Adds, fmt.Sprintf("%d programs of the image in /usr/bin and /opt/cni/bin", len(links)))
	}
}

// target is where a file of the rootfs belongs on the machine; "" for nowhere.
func target(f string) string {
	dir, name := path.Split(f)
	switch dir {
	case "bin/":
		if name == "sealer" {
			return ""
		}
		return "/usr/bin/" + name
	case "bin/cni/", "cni/", "cni/bin/", "opt/cni/bin/":
		return "/opt/cni/bin/" + name
	}
	return ""
}

// Targets are the paths on a machine where files of the image belong, sorted.
// The engine asks each machine which of them it has.
func (i Image) Targets() []string {
	out := []string{"/etc/containerd/config.toml", path.Join(unitDir, "containerd.service"), path.Join(unitDir, "kubelet.service")}
	out = append(out, runtimeUnits()...)
	for f := range i.Files {
		if to := target(f); to != "" {
			out = append(out, to)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// has says whether the image has a file.
func (i Image) has(name string) bool {
	_, ok := i.Files[name]
	return ok
}

// firstOf returns the first of the files that the image has.
func (i Image) firstOf(names ...string) string {
	for _, n := range names {
		if i.has(n) {
			return n
		}
	}
	return ""
}

// control makes stations 16 to 21: the control plane, then the others, the
// masters one after the other.
func (m *maker) control() {
	first := m.first()
	others := m.want.Hosts[1:]
	m.init = m.add(first, "kubeadm.init", KubeadmArgs{Config: first.Kubeadm, Socket: "unix://" + containerdSocket, Pods: m.want.Pods, Ignore: ignored()}, Restarts, "kubeadm init")
	if len(others) == 0 {
		return
	}
	masters := slices.ContainsFunc(others, func(h Host) bool { return h.Master() })
	m.plugins(first, extend.PreJoin)
	admit := m.add(first, "kubeadm.admit", KubeadmArgs{Master: masters}, Adds, "a token for the machines that join, good for two hours")
	before := ""
	for _, h := range others {
		m.plugins(h, extend.PreJoin)
		args := KubeadmArgs{Config: h.Kubeadm, Endpoint: m.endpoint(), Master: h.Master(), Socket: "unix://" + containerdSocket, Pods: m.want.Pods, Ignore: ignored()}
		if !h.Master() {
			m.add(h, "kubeadm.join", args, Restarts, "kubeadm join as a worker", admit)
			continue
		}
		m.add(h, "kubeadm.join", args, Restarts, "kubeadm join as a master", admit, before)
		before = m.add(h, "block", BlockArgs{File: "/etc/hosts", Mark: m.want.Cluster + " api", Lines: []string{h.Address.String() + " " + m.want.APIDomain}}, Changes,
			"its own API server in /etc/hosts")
	}
}

// ignored are checks of kubeadm that sealer does not let fail: it knows the
// kernels that run Kubernetes, and preflight has looked at the rest.
func ignored() []string { return []string{"SystemVerification"} }

func (m *maker) endpoint() string {
	return cmp.Or(m.want.External, fmt.Sprintf("%s:%d", m.want.APIDomain, m.want.APIPort))
}

// workload makes stations 22 to 26, all by the first master.
func (m *maker) workload() {
	first := m.first()
	wait := cmp.Or(m.want.WaitSeconds, 600)
	joined := map[string]string{}
	for _, h := range m.want.Hosts {
		joined[h.Address.String()] = m.last[h.Address.String()]
	}
	names := make([]string, 0, len(m.want.Hosts))
	for _, h := range m.want.Hosts {
		names = append(names, h.Kube)
		known := m.optional(h, "kube.wait", WaitArgs{Nodes: []string{h.Kube}, Seconds: wait}, Reads, "wait until "+h.Kube+" is known", joined[h.Address.String()])
		if a := labels(h); len(a.Labels)+len(a.Taints) > 0 {
			m.optional(h, "kube.label", a, Changes, "labels and taints of "+h.Kube, known)
		}
	}
	m.standing(extend.PreGuest, extend.PostInitHost, extend.AfterInstall)
	m.guests(m.want.Commands, first.Generation, "")
	m.after(m.add(first, "kube.wait", WaitArgs{Nodes: names, Ready: true, Seconds: wait}, Reads, "wait until all nodes and kube-system are ready"))
	m.standing(extend.PostInstall, extend.PostJoin)
	m.apps()
	m.add(first, "kube.secret", SecretArgs{Namespace: "kube-system", Name: "sealer", Digest: m.want.Secret}, Adds, "what the cluster keeps about itself: Secret kube-system/sealer")
}

// optional adds a step of the first master about another machine: when it does
// not end well, the other machine's lot does not keep the rest from going on.
func (m *maker) optional(about Host, kind string, args any, risk Risk, why string, need string) string {
	first := m.first()
	key := first.Address.String()
	last := m.last[key]
	id := m.add(first, kind, args, risk, why, need)
	if about.Address != first.Address {
		s := &m.plan.Steps[len(m.plan.Steps)-1]
		s.Needs = slices.DeleteFunc(s.Needs, func(n string) bool { return n == last && n != need })
		s.After = append(s.After, last)
	}
	return id
}

// after lets a step of the first master wait for its forerunner without needing
// that about other machines ended well.
func (m *maker) after(id string) {
	s := &m.plan.Steps[len(m.plan.Steps)-1]
	if s.ID != id {
		return
	}
	if !slices.Contains(s.Needs, m.init) {
		s.Needs = append(s.Needs, m.init)
	}
	for _, p := range m.plan.Steps {
		if slices.Contains(s.Needs, p.ID) && strings.HasPrefix(p.Kind, "kube.") {
			s.Needs = slices.DeleteFunc(s.Needs, func(n string) bool { return n == p.ID })
			s.After = append(s.After, p.ID)
		}
	}
}

// labels returns the labels and taints that the Clusterfile and the roles give
// a node.
func labels(h Host) LabelArgs {
	a := LabelArgs{Node: h.Kube, Labels: map[string]string{}}
	maps.Copy(a.Labels, h.Labels)
	for _, r := range h.Roles {
		if r != spec.RoleMaster && r != spec.RoleNode {
			a.Labels["node-role.kubernetes.io/"+r] = ""
		}
	}
	for _, text := range h.Taints {
		if t, err := spec.ParseTaint(text); err == nil { // Validate has looked at it
			a.Taints = append(a.Taints, LabelTaint(t))
		}
	}
	if h.Master() && h.Worker() {
		for _, key := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
			a.Taints = append(a.Taints, LabelTaint{Key: key, Remove: true})
		}
	}
	return a
}

// short cuts a command for a line of a plan.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}
