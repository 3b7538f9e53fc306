package facts

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
)

// services are the units that matter to a cluster.
var services = []string{
	"chronyd", "containerd", "crio", "docker", "etcd", "firewalld", "haproxy", "k3s", "keepalived", "kubelet", "nftables", "ntpd",
	"rke2-server", "sealer-node", "sealer-registry", "systemd-resolved", "systemd-timesyncd", "ufw",
}

// tools are the programs that a cluster brings or uses.
var tools = []string{
	"conntrack", "containerd", "crictl", "crio", "ctr", "docker", "dockerd", "ethtool", "ip", "iptables", "kubeadm", "kubectl",
	"kubelet", "mount", "nerdctl", "nft", "podman", "runc", "socat", "systemctl", "tar",
}

// units finds services and programs. systemd keeps a control group for each
// unit that runs, and a link for each that is to start.
func (m *machine) units() {
	for _, name := range services {
		unit := name + ".service"
		u := plan.Unit{Name: unit, Active: m.active(unit), Enabled: len(m.glob("/etc/systemd/system/*/"+unit)) > 0}
		installed := u.Active || u.Enabled
		for _, dir := range []string{"/etc/systemd/system/", "/usr/lib/systemd/system/", "/lib/systemd/system/"} {
			installed = installed || m.exists(dir+unit)
		}
		if installed {
			m.facts.Units = append(m.facts.Units, u)
		}
	}
	for _, name := range tools {
		for _, dir := range []string{"/usr/local/sbin/", "/usr/local/bin/", "/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/"} {
			if m.exists(dir + name) {
				m.facts.Programs = append(m.facts.Programs, plan.Program{Name: name, Path: dir + name})
				break
			}
		}
	}
}

// active says whether processes are in a unit's control group.
func (m *machine) active(unit string) bool {
	for _, tree := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		dir := tree + "/system.slice/" + unit
		if b, err := os.ReadFile(m.path(dir + "/cgroup.procs")); err == nil && len(b) > 0 {
			return true
		}
		if len(m.glob(dir+"/*/cgroup.procs")) > 0 { // a unit that has groups of its own
			return true
		}
	}
	return false
}

// clusterFiles match the files and interfaces that a cluster leaves behind.
// Most patterns name files inside a directory, because the directory alone is
// no trace of a cluster.
var clusterFiles = []string{
	"/etc/kubernetes/*.conf", "/etc/kubernetes/manifests/*.y*ml", "/etc/kubernetes/pki/*", "/var/lib/kubelet/config.yaml",
	"/var/lib/kubelet/pods/*", "/var/lib/etcd/member", "/etc/cni/net.d/*.conf*", "/var/lib/cni/networks/*", "/var/lib/cni/cache/*",
	"/var/lib/rancher", "/etc/rancher", "/var/lib/k0s",
	"/sys/class/net/cni0", "/sys/class/net/flannel*", "/sys/class/net/cali*", "/sys/class/net/cilium*", "/sys/class/net/kube-ipvs0",
	"/sys/class/net/tunl0@*", "/sys/class/net/docker0",
}

func (m *machine) leftovers() {
	for _, pattern := range clusterFiles {
		found := m.glob(pattern)
		if len(found) > 3 { // enough to know it by
			found = found[:3]
		}
		m.facts.Leftovers = append(m.facts.Leftovers, found...)
	}
	slices.Sort(m.facts.Leftovers)
	for _, pattern := range []string{"/etc/kubernetes/pki/*.crt", "/etc/kubernetes/pki/etcd/*.crt"} {
		for _, file := range m.glob(pattern) {
			m.certificate(file)
		}
	}
}

func (m *machine) certificate(file string) {
	b, err := os.ReadFile(m.path(file))
	if err != nil {
		m.unknown("certificates", err)
		return
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		m.unknown("certificates", err)
		return
	}
	m.facts.Certificates = append(m.facts.Certificates, plan.Cert{Path: file, Until: c.NotAfter})
}

func (m *machine) security() {
	switch m.text("selinux", "/sys/fs/selinux/enforce") {
	case "1":
		m.facts.SELinux = "enforcing"
	case "0":
		m.facts.SELinux = "permissive"
	}
	m.facts.AppArmor = m.text("apparmor", "/sys/module/apparmor/parameters/enabled") == "Y"
	m.facts.Firewalld = m.active("firewalld.service")
}

// places are the paths that a cluster writes to.
var places = []string{
	"/", "/etc", "/opt", "/tmp", "/usr/bin", "/var/lib/containerd", "/var/lib/docker", "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/sealer", "/var/log",
}

// mounts finds the file systems of the places.
func (m *machine) mounts() {
	type mount struct {
		point, kind string
		options     []string
	}
	var all []mount
	for _, l := range m.lines("mounts", "/proc/self/mountinfo") {
		left, right, ok := strings.Cut(l, " - ")
		words, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(words) < 6 || len(kind) < 3 {
			continue
		}
		options := append(strings.Split(words[5], ","), strings.Split(kind[2], ",")...)
		all = append(all, mount{unescape(words[4]), kind[0], options})
	}
	for _, place := range places {
		at := plan.Mount{Path: place, Inodes: -1}
		for _, mt := range all { // of two at one point, the later one covers the other
			inside := mt.point == "/" || place == mt.point || strings.HasPrefix(place, mt.point+"/")
			if inside && len(mt.point) >= len(at.Point) {
				at.Point, at.Type = mt.point, mt.kind
				at.NoExec, at.ReadOnly = slices.Contains(mt.options, "noexec"), slices.Contains(mt.options, "ro")
			}
		}
		m.facts.Mounts = append(m.facts.Mounts, at)
	}
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// nearest returns path, or its nearest parent that exists.
func (m *machine) nearest(path string) string {
	for path != "/" && !m.exists(path) {
		path = filepath.Dir(path)
	}
	return m.path(path)
}
