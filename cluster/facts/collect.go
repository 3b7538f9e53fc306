package facts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
)

// Options say where the facts are read and whether flushing is measured.
type Options struct {
	// Root is where the machine's files are; "" is the real one.
	Root string `json:"-"`
	// Fsync measures how long flushing takes in the directory of etcd, or its
	// nearest parent that exists: it writes a temporary file there.
	Fsync bool `json:"fsync,omitempty"`
}

// A machine is the machine's files, and the facts found so far.
type machine struct {
	root  string
	live  bool // the files are those of the running kernel
	facts plan.Facts
}

// Collect returns the facts of the machine. Host, Clock and ClockErr are left to
// the caller.
func Collect(ctx context.Context, o Options) plan.Facts {
	m := &machine{root: cmp.Or(o.Root, "/"), live: o.Root == "" || o.Root == "/"}
	m.facts.OS, m.facts.Arch, m.facts.UID = runtime.GOOS, runtime.GOARCH, os.Getuid()
	m.facts.Time = time.Now()
	for _, look := range []func(){
		m.system, m.hardware, m.cgroups, m.network, m.ports, m.names, m.kernel, m.units, m.leftovers, m.security, m.mounts,
	} {
		if ctx.Err() != nil {
			m.unknown("all", context.Cause(ctx))
			return m.facts
		}
		look()
	}
	if m.live {
		m.askKernel(ctx, o)
	}
	return m.facts
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

// unknown records that a fact could not be found out.
func (m *machine) unknown(fact string, err error) {
	m.facts.Unknown = append(m.facts.Unknown, plan.Unknown{Fact: fact, Cause: err.Error()})
}

// text returns a file without the white space around it, "" for one that does
// not exist. Any other error is recorded for the fact.
func (m *machine) text(fact, name string) string {
	b, err := os.ReadFile(m.path(name))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			m.unknown(fact, err)
		}
		return ""
	}
	return strings.TrimSpace(string(b))
}

// lines returns the lines of a file that are not empty.
func (m *machine) lines(fact, name string) []string {
	var lines []string
	s := bufio.NewScanner(bytes.NewReader([]byte(m.text(fact, name))))
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" {
			lines = append(lines, l)
		}
	}
	if err := s.Err(); err != nil {
		m.unknown(fact, err)
	}
	return lines
}

func (m *machine) exists(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// glob returns the files of the machine that match, as the machine names them.
func (m *machine) glob(pattern string) []string {
	files, err := filepath.Glob(m.path(pattern))
	if err != nil { // of a bad pattern only
		return nil
	}
	for i, f := range files {
		files[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(f, m.root), "/")
	}
	slices.Sort(files)
	return files
}

func (m *machine) system() {
	f := &m.facts
	for _, l := range m.lines("distribution", "/etc/os-release") {
		if v, ok := strings.CutPrefix(l, "PRETTY_NAME="); ok {
			f.Distribution = strings.Trim(v, `"'`)
		}
	}
	f.Kernel = m.text("kernel", "/proc/sys/kernel/osrelease")
	f.Hostname = m.text("hostname", "/proc/sys/kernel/hostname")
	f.BootID = m.text("bootId", "/proc/sys/kernel/random/boot_id")
	f.MachineID = m.text("machineId", "/etc/machine-id")
	f.ProductUUID = strings.ToLower(m.text("productUuid", "/sys/class/dmi/id/product_uuid"))
	f.InitSystem = m.text("initSystem", "/proc/1/comm")
	if m.exists("/run/systemd/system") {
		f.InitSystem = "systemd"
	}
	f.Container = m.text("container", "/run/systemd/container")
	if f.Container == "" && m.exists("/.dockerenv") {
		f.Container = "docker"
	}
}

func (m *machine) hardware() {
	f := &m.facts
	if f.CPUs = countList(m.text("cpus", "/sys/devices/system/cpu/online")); f.CPUs == 0 {
		f.CPUs = runtime.NumCPU()
	}
	for _, l := range m.lines("memory", "/proc/meminfo") {
		if v, ok := strings.CutPrefix(l, "MemTotal:"); ok {
			f.Memory = kibibytes(v)
		}
	}
	for i, l := range m.lines("swap", "/proc/swaps") {
		if words := strings.Fields(l); i > 0 && len(words) > 2 {
			f.Swap += kibibytes(words[2])
		}
	}
}

// kibibytes reads "123 kB", which the kernel means as KiB, into bytes.
func kibibytes(s string) int64 {
	words := strings.Fields(s)
	if len(words) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

// countList counts the members of a list of the kernel, as 0-3,8.
func countList(s string) int {
	n := 0
	for part := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return 0
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(to); err != nil {
				return 0
			}
		}
		n += b - a + 1
	}
	return n
}

func (m *machine) cgroups() {
	f := &m.facts
	f.Cgroup = 1
	if m.exists("/sys/fs/cgroup/cgroup.controllers") {
		f.Cgroup = 2
		f.Controllers = strings.Fields(m.text("controllers", "/sys/fs/cgroup/cgroup.controllers"))
		slices.Sort(f.Controllers)
		return
	}
	for _, l := range m.lines("controllers", "/proc/cgroups") {
		if words := strings.Fields(l); len(words) == 4 && words[3] == "1" {
			f.Controllers = append(f.Controllers, words[0])
		}
	}
	slices.Sort(f.Controllers)
}

// kernelModules are the modules that a cluster or its network may need.
var kernelModules = []string{
	"br_netfilter", "ip_set", "ip_tables", "ip_vs", "ipip", "iptable_filter", "iptable_nat", "nf_conntrack", "nf_tables",
	"overlay", "vxlan", "wireguard", "xt_comment", "xt_conntrack", "xt_multiport", "xt_set",
}

// parameters of the kernel that a cluster or its runtime needs or changes.
var parameters = []string{
	"fs.file-max", "fs.inotify.max_user_instances", "fs.inotify.max_user_watches", "kernel.panic", "kernel.panic_on_oops",
	"kernel.pid_max", "net.bridge.bridge-nf-call-ip6tables", "net.bridge.bridge-nf-call-iptables",
	"net.ipv4.conf.all.forwarding", "net.ipv4.conf.all.rp_filter", "net.ipv4.ip_forward", "net.ipv4.ip_local_port_range",
	"net.ipv6.conf.all.disable_ipv6", "net.ipv6.conf.all.forwarding", "net.netfilter.nf_conntrack_max", "vm.max_map_count",
	"vm.overcommit_memory", "vm.panic_on_oom", "vm.swappiness",
}

func (m *machine) kernel() {
	f := &m.facts
	there := map[string]bool{}
	for _, l := range m.lines("modules", "/proc/modules") {
		name, _, _ := strings.Cut(l, " ")
		there[name] = true
	}
	dir := "/lib/modules/" + f.Kernel
	for _, l := range m.lines("modules", dir+"/modules.builtin") {
		there[moduleName(l)] = true
	}
	if slices.Contains(m.lines("modules", "/proc/filesystems"), "nodev\toverlay") {
		there["overlay"] = true
	}
	for module, file := range map[string]string{
		"br_netfilter": "/proc/sys/net/bridge/bridge-nf-call-iptables", "nf_conntrack": "/proc/sys/net/netfilter/nf_conntrack_max",
	} {
		if m.exists(file) { // it may be built in where no list of modules is
			there[module] = true
		}
	}
	loadable := map[string]bool{}
	for _, l := range m.lines("modules", dir+"/modules.dep") {
		file, _, _ := strings.Cut(l, ":")
		loadable[moduleName(file)] = true
	}
	for _, name := range kernelModules {
		switch {
		case there[name]:
			f.Modules = append(f.Modules, name)
		case loadable[name]:
			f.Loadable = append(f.Loadable, name)
		}
	}
	for _, p := range parameters {
		file := "/proc/sys/" + strings.ReplaceAll(p, ".", "/")
		if m.exists(file) {
			f.Sysctl = append(f.Sysctl, plan.Variable{Name: p, Value: strings.Join(strings.Fields(m.text("sysctl", file)), " ")})
		}
	}
}

// moduleName takes a module's name out of its file's, as
// kernel/fs/overlayfs/overlay.ko.xz.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}
