package preflight

import (
	"path"

	"github.com/clusterimage/sealer/cluster/plan"
)

func diskChecks() []check {
	return []check{{"disk", checkDisk}, {"disk-pressure", checkPressure}, {"inodes", checkInodes}, {"noexec", checkNoExec}, {"etcd-disk", checkEtcdDisk}}
}

// mount returns the file system of a path, or of its nearest parent that the
// facts have.
func (n Node) mount(at string) (plan.Mount, bool) {
	for ; ; at = path.Dir(at) {
		for _, m := range n.Mounts {
			if m.Path == at {
				return m, m.TotalBytes > 0
			}
		}
		if at == "/" || at == "." {
			return plan.Mount{}, false
		}
	}
}

// leastFree is the free space, in bytes, that a machine must have when the
// engine knows of no bytes to write.
const leastFree = 1e9

// checkDisk adds up the bytes needed on each file system and compares them with
// its free space.
func checkDisk(f *findings) {
	for _, n := range f.in.Nodes {
		needs := n.Needs
		if len(needs) == 0 && !n.Ours {
			needs = []Space{{Path: "/var/lib/sealer", Bytes: leastFree}}
		}
		var points []plan.Mount
		sum := map[string]int64{}
		for _, need := range needs {
			m, ok := n.mount(need.Path)
			if !ok {
				f.warn(n.Host, "", "the free space at %s is not known", need.Path)
				continue
			}
			if sum[m.Point] == 0 {
				points = append(points, m)
			}
			sum[m.Point] += need.Bytes
		}
		for _, m := range points {
			if want := int64(float64(sum[m.Point]) * f.number()); want > m.Bytes {
				f.fail(n.Host, "make room there, or mount a larger file system", "%s has %s free, and %s are needed", m.Point, size(m.Bytes), size(want))
			}
		}
	}
}

// checkPressure tells machines whose kubelet will start no pods: below these
// shares of free space it reports disk pressure, unless its evictionHard says
// otherwise (Kubernetes, "Node-pressure Eviction").
func checkPressure(f *findings) {
	if f.in.kubelet("evictionHard") != nil {
		return
	}
	for _, n := range f.in.Nodes {
		for _, at := range []struct {
			path    string
			percent int64
		}{{"/var/lib/kubelet", 10}, {"/var/lib/containerd", 15}} {
			if m, ok := n.mount(at.path); ok && m.Bytes < m.TotalBytes/100*at.percent {
				f.warn(n.Host, "make room there, or set evictionHard in a KubeletConfiguration",
					"%s has less than %d %% of its space free: its kubelet will report disk pressure and start no pods", m.Point, at.percent)
				break
			}
		}
	}
}

func checkInodes(f *findings) {
	for _, n := range f.in.Nodes {
		if m, ok := n.mount("/var/lib/sealer"); ok && m.Inodes >= 0 && m.Inodes < 20_000 {
			f.fail(n.Host, "make a file system with more inodes there", "%s has %d inodes free", m.Point, m.Inodes)
		}
	}
}

func checkNoExec(f *findings) {
	for _, n := range f.in.Nodes {
		for _, at := range []string{"/usr/bin", "/opt", "/etc", "/var/lib/sealer", "/var/lib/containerd", "/var/lib/kubelet"} {
			m, ok := n.mount(at)
			switch {
			case !ok:
			case m.ReadOnly:
				f.fail(n.Host, "mount it writable", "%s (%s) is read-only", at, m.Point)
			case m.NoExec && at != "/etc":
				f.fail(n.Host, "mount it without noexec", "%s (%s) is mounted noexec, and programs lie there", at, m.Point)
			}
		}
	}
}

func checkEtcdDisk(f *findings) {
	for _, n := range f.in.Nodes {
		if n.Master && n.Fsync > f.duration() {
			f.warn(n.Host, "put /var/lib/etcd on a faster disk", "99 of 100 flushes take up to %v, and etcd wants %v", n.Fsync.Round(1e5), f.duration())
		}
	}
}
