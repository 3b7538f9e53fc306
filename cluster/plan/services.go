package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// unitDir is where the machine's own units lie.
const unitDir = "/etc/systemd/system"

// Placeholders in a unit's file for values that only the machine knows.
const (
	Sealer = "@SEALER@" // the path of sealer
	Root   = "@ROOT@"   // before a path that sealer itself opens: nothing, but in tests
)

// descriptor is the image that a machine gets: with the container images where
// it serves them.
func (m *maker) descriptor(h Host) ocispec.Descriptor {
	if m.hasRegistry(h) {
		return m.want.Full
	}
	return m.want.Rootfs
}

// ImageName is the name of a cluster's image in the stores of its machines.
func ImageName(cluster string, d ocispec.Descriptor) string {
	return "sealer.local/" + strings.ToLower(cluster) + ":" + d.Digest.Encoded()[:12]
}

func (m *maker) bringImage(h Host) {
	d := m.descriptor(h)
	blobs := m.img.Layers
	what := "the image's files"
	if m.hasRegistry(h) {
		blobs = append(slices.Clone(blobs), m.img.Registry...)
		what = "the image with its container images"
	}
	m.add(h, "image", ImageArgs{Descriptor: d, Name: ImageName(m.want.Cluster, d)}, Adds, what+" in the machine's store")
	m.plan.Steps[len(m.plan.Steps)-1].Bytes = m.lacking(h, blobs)
	if m.hasRegistry(h) {
		m.bringApps(h)
	}
}

// lacking sums the sizes of the blobs that the machine's store lacks.
func (m *maker) lacking(h Host, blobs []Blob) int64 {
	var bytes int64
	missing := m.seen[h.Address.String()].Missing
	for _, b := range blobs {
		if slices.Contains(missing, b.Digest) {
			bytes += b.Size
		}
	}
	return bytes
}

func (m *maker) caFile() string { return path.Join(Dir(m.want.Cluster), "pki", "ca.crt") }

// registry makes station 11.
func (m *maker) registry(h Host) {
	pki := path.Join(Dir(m.want.Cluster), "pki")
	cert, key := path.Join(pki, "registry.crt"), path.Join(pki, "registry.key")
	m.add(h, "files", FilesArgs{Files: []FileArg{
		{To: cert, Secret: SecretRegistryCert, Mode: 0o644},
		{To: key, Secret: SecretRegistryKey, Mode: 0o600},
		{To: path.Join(pki, "ca.key"), Secret: SecretRegistryCAKey, Mode: 0o600},
	}}, Adds, "certificate of the registry, and the key of its authority for other operators")
	if m.want.Applications != "" {
		file := FileArg{To: path.Join(Dir(m.want.Cluster), "applications.json"), Content: m.want.Applications, Mode: 0o600}
		m.add(h, "files", FilesArgs{Files: []FileArg{file}}, Changes, "the list of applications, for other operators")
	}
	unit := strings.Join([]string{
		"[Unit]", "Description=Container images of the cluster " + m.want.Cluster, "After=network.target",
		"[Service]",
		fmt.Sprintf("ExecStart=%s --root %s registry serve %s --addr :%d --tls-cert %s --tls-key %s",
			Sealer, m.seen[h.Address.String()].Store, strings.Join(m.served(), " "), m.want.RegistryPort, Root+cert, Root+key),
		"Restart=always", "RestartSec=1",
		"[Install]", "WantedBy=multi-user.target", "",
	}, "\n")
	m.add(h, "unit", UnitArgs{Name: "sealer-registry.service", Content: unit, Trigger: digestText(m.want.CA + m.want.Program), Ready: &Ready{
		URL: fmt.Sprintf("https://%s/v2/", hostPort(h, m.want.RegistryPort)), CA: m.caFile(),
	}}, Adds, "the registry, as a service")
}

// hostPort writes the address with a port.
func hostPort(h Host, port int) string {
	if h.Address.Is6() {
		return fmt.Sprintf("[%s]:%d", h.Address, port)
	}
	return fmt.Sprintf("%s:%d", h.Address, port)
}

// balancer makes station 12 for a worker.
func (m *maker) balancer(h Host) {
	file := path.Join(Dir(m.want.Cluster), "masters")
	var masters []string
	for _, o := range m.want.Hosts {
		if o.Master() {
			masters = append(masters, hostPort(o, m.want.APIPort))
		}
	}
	m.add(h, "files", FilesArgs{Files: []FileArg{{To: file, Content: strings.Join(masters, "\n") + "\n", Mode: 0o644}}}, Adds, "addresses of the masters")
	unit := strings.Join([]string{
		"[Unit]", "Description=API server of the cluster " + m.want.Cluster + " on this machine", "After=network.target",
		"[Service]",
		fmt.Sprintf("ExecStart=%s node balance --listen 127.0.0.1:%d --file %s", Sealer, m.want.APIPort, Root+file),
		"Restart=always", "RestartSec=1",
		"[Install]", "WantedBy=multi-user.target", "",
	}, "\n")
	m.add(h, "unit", UnitArgs{Name: "sealer-node.service", Content: unit, Trigger: digestText(m.want.Program)}, Adds, "the way to the API servers, as a service")
}

// runtimeUnits are where a package puts the unit of containerd.
func runtimeUnits() []string {
	return []string{"/usr/lib/systemd/system/containerd.service", "/lib/systemd/system/containerd.service"}
}

// runtime makes station 13: by the image's script, or with containerd of the
// image or of the machine.
func (m *maker) runtime(h Host) {
	m.mirrors(h)
	m.add(h, "trees", leavings(), Adds, "directories that the services will make")
	scripts := []string{"scripts/init.sh", "scripts/containerd.sh", "scripts/docker.sh"}
	if m.want.Runtime != "" {
		scripts = []string{"scripts/" + m.want.Runtime + ".sh"}
	}
	script := m.img.firstOf(scripts...)
	if m.want.Runtime == "docker" && script == "" {
		m.fault(h, "containerRuntime.type is docker, and image %s has no scripts/docker.sh to install it: remove the type for the image's own runtime", m.img.Name)
	}
	if script != "" {
		args := ScriptArgs{Run: runtimeScript(script, m.want), Dir: "scripts", Generation: h.Generation, Env: scriptEnv(h)}
		m.add(h, "script", args, Restarts, "container runtime, by the image's "+script)
		return
	}
	node := m.seen[h.Address.String()]
	unitFile := slices.ContainsFunc(runtimeUnits(), func(p string) bool { _, ok := node.Files[p]; return ok })
	config := FileArg{To: "/etc/containerd/config.toml", Mode: 0o644, Replace: true}
	if config.From = m.img.firstOf("etc/containerd.toml", "etc/containerd/config.toml", "etc/containerd-config.toml"); config.From == "" {
		config.Content = m.containerdConfig()
	}
	m.add(h, "files", FilesArgs{Generation: h.Generation, Files: []FileArg{config}}, Changes, "configuration of containerd")
	unit := UnitArgs{Name: "containerd.service", Generation: h.Generation, Trigger: digestText(h.Generation + config.Content), Ready: &Ready{Socket: containerdSocket}}
	if unit.From = m.img.firstOf("etc/containerd.service"); unit.From == "" && (!unitFile || node.InitSystem != "systemd") {
		unit.Content = containerdUnit
	}
	m.add(h, "unit", unit, Restarts, "containerd, as a service")
}

// leavings are the directories that the container runtime, kubeadm, kubelet and
// network plugins make by themselves. The plan names them, so that delete can
// remove them; network settings are put back apart from them.
func leavings() TreesArgs {
	return TreesArgs{
		Dirs: []string{
			"/var/lib/containerd", "/run/containerd", "/opt/containerd", "/run/netns", "/run/xtables.lock",
			"/etc/cni/net.d", "/var/lib/cni", "/run/flannel",
			"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd", "/usr/libexec/kubernetes", "/var/log/pods", "/var/log/containers",
		},
		Empty: []string{"/usr/lib/modules"},
	}
}

// runtimeScript is the call of a runtime script, with the arguments that the
// images of sealer 0.8 and 0.9 expect.
func runtimeScript(script string, w Want) string {
	return fmt.Sprintf("bash ./%s /var/lib/docker %s %d", path.Base(script), w.RegistryDomain, w.RegistryPort)
}

func scriptEnv(h Host) map[string]string {
	env := map[string]string{"HostIP": h.Address.String(), "NodeName": h.Kube}
	for _, line := range h.Env {
		if k, v, ok := strings.Cut(line, "="); ok && !strings.Contains(v, "${") {
			env[k] = v
		}
	}
	return env
}

// mirrors adds the files that send containerd's pulls to the registries of the
// cluster: a hosts.toml for every registry whose images the ClusterImage holds,
// and one for the private registry's own name.
func (m *maker) mirrors(h Host) {
	var servers []string
	for _, r := range m.registries(h) {
		servers = append(servers, "https://"+hostPort(r, m.want.RegistryPort))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Written by sealer.\nserver = %q\nca = %q\n", servers[0], m.caFile())
	for _, s := range servers {
		fmt.Fprintf(&b, "\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n  ca = %q\n", s, m.caFile())
	}
	names := append(slices.Clone(m.img.Hosts), m.img.Private, m.want.RegistryDomain+":"+strconv.Itoa(m.want.RegistryPort))
	for _, a := range m.want.Apps {
		names = append(append(names, a.Image.Hosts...), a.Image.Private)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" })
	slices.Sort(names)
	var files []FileArg
	for _, n := range slices.Compact(names) {
		files = append(files, FileArg{To: path.Join("/etc/containerd/certs.d", n, "hosts.toml"), Content: b.String(), Mode: 0o644, Replace: m.want.Force})
	}
	m.add(h, "files", FilesArgs{Files: files}, Adds, fmt.Sprintf("pulls of %d registries go to the cluster's own", len(files)))
}

// kubelet makes station 14.
func (m *maker) kubelet(h Host) {
	if script := m.img.firstOf("scripts/init-kube.sh"); script != "" {
		m.add(h, "script", ScriptArgs{Run: "bash ./init-kube.sh", Dir: "scripts", Generation: h.Generation, Env: scriptEnv(h)}, Adds, "kubelet, by the image's "+script)
		return
	}
	unit := UnitArgs{Name: "kubelet.service", Generation: h.Generation, Idle: true, Trigger: digestText(h.Generation), DropIns: map[string]string{}}
	unit.From = m.img.firstOf("etc/kubelet.service")
	if f := m.img.firstOf("etc/10-kubeadm.conf", "etc/kubelet.service.d/10-kubeadm.conf"); f != "" {
		unit.DropIns["10-kubeadm.conf"] = f
	}
	if unit.From == "" {
		unit.Content = kubeletUnit
	}
	m.add(h, "unit", unit, Adds, "kubelet, as a service")
}

// kubeletUnit starts the kubelet as kubeadm expects, with the files that
// kubeadm writes.
const kubeletUnit = `[Unit]
Description=Kubernetes node agent
After=network.target containerd.service
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS
Restart=always
StartLimitInterval=0
RestartSec=1
[Install]
WantedBy=multi-user.target
`

const containerdUnit = `[Unit]
Description=containerd
After=network.target
[Service]
ExecStart=/usr/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNPROC=infinity
LimitCORE=infinity
LimitNOFILE=infinity
TasksMax=infinity
OOMScoreAdjust=-999
[Install]
WantedBy=multi-user.target
`

// containerdConfig is for an image that brings none: version 2, which
// containerd 1.3 and later read, with the sandbox image of the ClusterImage.
func (m *maker) containerdConfig() string {
	pause := ""
	for _, r := range m.img.References {
		name, _, _ := strings.Cut(path.Base(r), ":")
		if name == "pause" {
			pause = r
		}
	}
	var b strings.Builder
	b.WriteString("# Written by sealer.\nversion = 2\n[plugins.\"io.containerd.grpc.v1.cri\"]\n")
	if pause != "" {
		fmt.Fprintf(&b, "  sandbox_image = %q\n", pause)
	}
	b.WriteString("[plugins.\"io.containerd.grpc.v1.cri\".registry]\n  config_path = \"/etc/containerd/certs.d\"\n")
	return b.String()
}

func digestText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:16]
}
