package preflight

import (
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
)

func machineChecks() []check {
	return []check{
		{"facts", checkFacts}, {"os", checkOS}, {"arch", checkArch}, {"root", checkRoot}, {"kernel", checkKernel},
		{"cgroup", checkCgroup}, {"init", checkInit}, {"cpus", checkCPUs}, {"memory", checkMemory}, {"swap", checkSwap},
		{"modules", checkModules}, {"sysctl", checkSysctl}, {"leftovers", checkLeftovers}, {"runtime", checkRuntime},
		{"selinux", checkSELinux}, {"firewall", checkFirewall}, {"certificates", checkCertificates},
	}
}

func checkFacts(f *findings) {
	for _, n := range f.in.Nodes {
		for _, u := range n.Unknown {
			f.warn(n.Host, "", "%s could not be found out: %s", u.Fact, u.Cause)
		}
	}
}

func checkOS(f *findings) {
	for _, n := range f.in.Nodes {
		if n.OS != "linux" {
			f.fail(n.Host, "nodes run Linux", "it runs %s", n.OS)
		}
	}
}

func checkArch(f *findings) {
	for _, n := range f.in.Nodes {
		if f.in.Archs != nil && !slices.Contains(f.in.Archs, n.Arch) {
			f.fail(n.Host, "build the image with --platform linux/"+n.Arch+", too, or leave the host out",
				"it is %s, and the image is for %s", n.Arch, strings.Join(f.in.Archs, ", "))
		}
	}
}

func checkRoot(f *findings) {
	for _, n := range f.in.Nodes {
		if n.UID != 0 {
			f.fail(n.Host, "connect as root, or as a user whom sudo lets become root", "sealer runs there as user %d", n.UID)
		}
	}
}

func checkKernel(f *findings) {
	want, _ := parseVersion(f.threshold())
	for _, n := range f.in.Nodes {
		got, err := parseVersion(n.Kernel)
		switch {
		case err != nil:
			f.warn(n.Host, "", "the kernel's version is not known: %q", n.Kernel)
		case got.less(want):
			f.fail(n.Host, "install a kernel of at least "+want.String(), "the kernel is %s", n.Kernel)
		}
	}
}

func checkCgroup(f *findings) {
	kube, err := parseVersion(f.in.Kubernetes)
	for _, n := range f.in.Nodes {
		if n.Cgroup == 1 && err == nil && !kube.less(version{1, 35}) && f.in.kubelet("failCgroupV1") != false {
			f.fail(n.Host, "boot with systemd.unified_cgroup_hierarchy=1, or set failCgroupV1: false in a KubeletConfiguration",
				"it has cgroup v1, and the kubelet of %s does not start on it", f.in.Kubernetes)
		}
		var lack []string
		for _, c := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !slices.Contains(n.Controllers, c) {
				lack = append(lack, c)
			}
		}
		if len(lack) > 0 {
			f.fail(n.Host, "switch them on (boot parameters cgroup_enable=..., or the parent of a container)",
				"the cgroup controllers %s are missing", strings.Join(lack, ", "))
		}
	}
}

// kubelet returns a field of the KubeletConfiguration; nil without one.
func (in Input) kubelet(field string) any { return in.document1("KubeletConfiguration", field) }

func checkInit(f *findings) {
	for _, n := range f.in.Nodes {
		if n.InitSystem != "systemd" {
			f.warn(n.Host, "let the machine start them at boot, as in /etc/rc.local: /var/lib/sealer/data/CLUSTER/bin/sealer node start", "process 1 is %s and not systemd: sealer supervises the services itself", n.InitSystem)
		}
	}
}

func checkCPUs(f *findings) {
	for _, n := range f.in.Nodes {
		if n.Master && float64(n.CPUs) < f.number() {
			f.fail(n.Host, "kubeadm wants "+f.threshold()+" for a master", "it has %d CPUs", n.CPUs)
		}
	}
}

func checkMemory(f *findings) {
	for _, n := range f.in.Nodes {
		switch want := f.bytes(); {
		case n.Master && n.Memory < want:
			f.fail(n.Host, "kubeadm wants "+size(want)+" for a master", "it has %s of memory", size(n.Memory))
		case n.Memory < want/2:
			f.warn(n.Host, "", "it has %s of memory", size(n.Memory))
		}
	}
}

func checkSwap(f *findings) {
	if f.in.kubelet("failSwapOn") == false {
		return
	}
	for _, n := range f.in.Nodes {
		if n.Swap > 0 {
			f.fail(n.Host, "switch it off (swapoff -a, and in /etc/fstab), or set failSwapOn: false in a KubeletConfiguration",
				"%s of swap are on, and the kubelet does not start with it", size(n.Swap))
		}
	}
}

func checkModules(f *findings) {
	for _, n := range f.in.Nodes {
		for _, name := range []string{"overlay", "br_netfilter", "nf_conntrack"} {
			if !slices.Contains(n.Modules, name) && !slices.Contains(n.Loadable, name) {
				f.warn(n.Host, "install the kernel's modules package", "the kernel module %s is neither loaded nor there to be loaded", name)
			}
		}
	}
}

func checkSysctl(f *findings) {
	for _, n := range f.in.Nodes {
		if slices.Contains(n.Sysctl, plan.Variable{Name: "vm.overcommit_memory", Value: "2"}) {
			f.warn(n.Host, "sysctl -w vm.overcommit_memory=1", "vm.overcommit_memory is 2: large programs may not start")
		}
	}
}

// cniOnly says that a leftover is a network configuration, which other programs
// than a cluster have, too.
func cniOnly(path string) bool {
	return strings.HasPrefix(path, "/etc/cni/") || strings.HasPrefix(path, "/var/lib/cni/")
}

func checkLeftovers(f *findings) {
	for _, n := range f.in.Nodes {
		if n.Ours {
			continue
		}
		var cluster, network []string
		for _, l := range n.Leftovers {
			switch {
			case strings.HasSuffix(l, "/docker0"):
			case cniOnly(l):
				network = append(network, l)
			default:
				cluster = append(cluster, l)
			}
		}
		if len(cluster) > 0 {
			f.fail(n.Host, "if nothing of it is needed: sealer delete, or kubeadm reset -f there, and remove what is left",
				"a cluster was or is here: %s", few(append(cluster, network...)))
		} else if len(network) > 0 {
			f.warn(n.Host, "remove the files, unless another program needs them", "pods may get this network: %s", few(network))
		}
	}
}

// few joins the first words.
func few(words []string) string {
	if len(words) > 4 {
		return strings.Join(words[:4], ", ") + " and more"
	}
	return strings.Join(words, ", ")
}

func checkRuntime(f *findings) {
	for _, n := range f.in.Nodes {
		if n.Ours {
			continue
		}
		for _, u := range n.Units {
			name := strings.TrimSuffix(u.Name, ".service")
			if u.Active && slices.Contains([]string{"docker", "containerd", "crio", "kubelet", "etcd", "k3s", "rke2-server"}, name) {
				f.warn(n.Host, "stop and remove it, unless it is to be used", "%s runs already", name)
			}
		}
	}
}

func checkSELinux(f *findings) {
	for _, n := range f.in.Nodes {
		if n.SELinux == "enforcing" {
			f.warn(n.Host, "sealer leaves it as it is: label what the image brings, or set it to permissive yourself", "SELinux is enforcing")
		}
	}
}

func checkFirewall(f *findings) {
	for _, n := range f.in.Nodes {
		ufw := slices.ContainsFunc(n.Units, func(u plan.Unit) bool { return u.Name == "ufw.service" && u.Active })
		if n.Firewalld || ufw {
			f.warn(n.Host, "sealer leaves it as it is: open the ports of the cluster and its pod network", "a firewall runs")
		}
	}
}

func checkCertificates(f *findings) {
	for _, n := range f.in.Nodes {
		for _, c := range n.Certificates {
			left := c.Until.Sub(n.Time)
			switch {
			case !n.Ours: // the leftovers tell of it
			case left < 0:
				f.fail(n.Host, "sealer cert renew", "the certificate %s has expired", c.Path)
			case left < 30*24*time.Hour:
				f.warn(n.Host, "sealer cert renew", "the certificate %s expires in %d days", c.Path, int(left.Hours()/24))
			}
		}
	}
}
