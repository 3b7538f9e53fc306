package node

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/journal"
)

// A DebugRequest asks for what helps to find a fault.
type DebugRequest struct {
	Cluster string `json:"cluster"`
}

// Bounds of what Debug collects.
const (
	debugLines   = 2000    // of a service
	debugFile    = 1 << 20 // bytes of a file or of a program's output; the last ones count
	debugProgram = 10 * time.Second
)

// debugUnits are the services of a node.
var debugUnits = []string{"sealer-registry.service", "sealer-node.service", "containerd.service", "docker.service", "kubelet.service"}

// debugFiles are patterns of files that say how the machine is set up. Files
// with keys are not among them.
var debugFiles = []string{
	"/etc/hosts", "/etc/resolv.conf", "/etc/os-release", "/etc/containerd/config.toml", "/etc/containerd/certs.d/*/hosts.toml", "/etc/docker/daemon.json",
	"/etc/kubernetes/manifests/*.yaml", "/etc/cni/net.d/*", "/var/lib/kubelet/config.yaml", "/var/lib/kubelet/kubeadm-flags.env",
	UnitDir + "/sealer-*.service", UnitDir + "/containerd.service", UnitDir + "/kubelet.service", UnitDir + "/kubelet.service.d/*",
	"/var/log/pods/kube-system_*/*/*.log",
	"/proc/meminfo", "/proc/loadavg", "/proc/mounts", "/proc/swaps", "/proc/cpuinfo",
}

// debugPrograms are commands that only look.
var debugPrograms = [][]string{
	{"ip", "address"}, {"ip", "route"}, {"df", "-h"}, {"df", "-i"}, {"ss", "-tlnp"}, {"ps", "-eo", "pid,ppid,stat,etime,rss,comm"},
	{"systemctl", "--failed", "--no-pager"}, {"journalctl", "--no-pager", "--lines=500", "--priority=warning"},
	{"ctr", "-n", "k8s.io", "containers", "ls"}, {"ctr", "-n", "k8s.io", "tasks", "ls"}, {"ctr", "-n", "k8s.io", "images", "ls", "-q"},
	{"crictl", "ps", "-a"}, {"docker", "ps", "-a"}, {"nft", "list", "tables"}, {"dmesg", "--level=err,warn"},
}

// Debug writes a tar with the journal of the cluster, the services' last lines,
// and how the machine is set up. What the machine does not have is left out. The
// receiver takes the secrets out.
func (s *Server) Debug(ctx context.Context, q DebugRequest, w io.Writer) error {
	d := &debug{Machine: Machine{Root: s.o.Root}, w: tar.NewWriter(w)}
	units := s.units(q.Cluster)
	records, err := journal.Read(s.dataDir(q.Cluster))
	var lines bytes.Buffer
	for _, r := range records {
		err = errors.Join(err, json.NewEncoder(&lines).Encode(r))
	}
	d.add("journal.jsonl", lines.Bytes(), err)
	for _, u := range debugUnits {
		st, err := units.State(ctx, u)
		text, terr := units.Tail(ctx, u, debugLines)
		if err == nil && st == (UnitState{}) && (terr != nil || strings.TrimSpace(text) == "") {
			continue // the machine has no such service
		}
		d.add("units/"+u+".log", fmt.Appendf(nil, "active %v, enabled %v\n%s\n", st.Active, st.Enabled, text), err)
	}
	for _, pattern := range debugFiles {
		names, err := filepath.Glob(d.Path(pattern))
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			b, err := tailOf(name)
			rel, _ := filepath.Rel(d.Root, name)
			d.add("files/"+rel, b, err)
		}
	}
	for _, args := range debugPrograms {
		d.program(ctx, args)
	}
	return errors.Join(d.err, d.w.Close())
}

type debug struct {
	Machine
	w   *tar.Writer
	err error // of the writer
}

// add writes a file; an error about its content is written in its place.
func (d *debug) add(name string, content []byte, err error) {
	if err != nil {
		content = append(content, "\nsealer: "+err.Error()+"\n"...)
	}
	if d.err == nil {
		d.err = d.w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: time.Now()})
	}
	if d.err == nil {
		_, d.err = d.w.Write(content)
	}
}

func (d *debug) program(ctx context.Context, args []string) {
	if _, err := exec.LookPath(d.lookup(args[0])); err != nil || ctx.Err() != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, debugProgram)
	defer cancel()
	cmd := exec.CommandContext(limited, d.lookup(args[0]), args[1:]...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	d.add("commands/"+strings.ReplaceAll(strings.Join(args, " "), "/", "_")+".txt", out[max(0, len(out)-debugFile):], err)
}

// tailOf reads the end of a regular file.
func tailOf(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, &fs.PathError{Op: "read", Path: name, Err: errors.New("it is no file")})
	}
	if info.Size() > debugFile {
		if _, err := f.Seek(-debugFile, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, debugFile))
}
