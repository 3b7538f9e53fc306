package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/perf/figure"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/store"
)

// BenchmarkMachines is the engine's own part of a run on many machines: SSH,
// facts, preflight with every machine reaching for the others' ports, the plan,
// all steps, the journals' copies. The machines are in this process and do
// nothing; what they cost counts, too.
func BenchmarkMachines(b *testing.B) {
	for _, n := range []int{1, 20, 200, 1000} {
		b.Run(fmt.Sprintf("machines=%d", n), func(b *testing.B) { benchmarkMachines(b, n) })
	}
}

// TestManyMachines keeps the benchmark alive, with 50 machines.
func TestManyMachines(t *testing.T) {
	t.Parallel()
	steps := &atomic.Int64{}
	runMachines(t, startMachines(t, 50, steps), benchStore(t))
	if steps.Load() < 50*10 {
		t.Errorf("%d steps ran on 50 machines", steps.Load())
	}
}

func benchmarkMachines(b *testing.B, n int) {
	steps := &atomic.Int64{}
	machines, s := startMachines(b, n, steps), benchStore(b)
	before, begin := figure.ProcessorTime(), time.Now()
	for b.Loop() {
		runMachines(b, machines, s)
	}
	took := time.Since(begin).Seconds() / float64(b.N)
	used := (figure.ProcessorTime() - before).Seconds() / float64(b.N)
	b.ReportMetric(used, "cpu-s/op")
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(u.Maxrss)/1e3, "max-rss-MB")
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapSys)/1e6, "heap-MB")
	b.ReportMetric(float64(steps.Load())/float64(b.N), "steps")
	for _, f := range []figure.Figure{
		{Value: used, Unit: "CPU s"}, {Value: took, Unit: "s", Goal: new(60.0)}, {Value: float64(u.Maxrss) * 1024 / 1e6, Unit: "MB of memory", Goal: new(1000.0)},
	} {
		f.Name, f.X, f.XUnit = "nodes/run", float64(n), "machines"
		if n < 1000 { // the goals are for 1,000 machines on two processors
			f.Goal = nil
		}
		if err := figure.Add(f); err != nil {
			b.Error(err)
		}
	}
}

// startMachines starts machines that say yes to all.
func startMachines(t testing.TB, n int, steps *atomic.Int64) []*fakeMachine {
	t.Helper()
	own, err := session.Own()
	if err != nil {
		t.Fatal(err)
	}
	var out []*fakeMachine
	for i := range n {
		m := newFakeMachine(fmt.Sprintf("n%d", i+1), fmt.Sprintf("127.1.%d.%d", i/250, i%250+1))
		m.steps = steps
		if err := m.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Stop)
		m.WriteFile(session.DefaultDir+"/sealer-"+strings.TrimPrefix(own.Digest, "sha256:")[:16], nil)
		out = append(out, m)
	}
	return out
}

// benchStore is a store with an image that has what a cluster needs.
func benchStore(t testing.TB) *store.Store {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"Kubefile": "FROM scratch\nCOPY bin .\nCOPY etc .\nCOPY Metadata .\nCMD true\n", "Metadata": `{"version": "v1.33.13", "arch": "amd64"}`,
		"bin/kubeadm": "#!/bin/sh\n", "bin/kubelet": "#!/bin/sh\n", "bin/containerd": "#!/bin/sh\n",
		"etc/kubeadm.yml": "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nnetworking:\n  podSubnet: 10.244.0.0/16\n",
	} {
		path := filepath.Join(dir, "context", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	client, err := remote.New(remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tag, err := ref.Parse("kubernetes:v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := build.Build(t.Context(), s, client, build.Options{Context: filepath.Join(dir, "context"), Tags: []ref.Reference{tag}, Scan: "off", Offline: true}); err != nil {
		t.Fatal(err)
	}
	return s
}

// runMachines makes one cluster of the machines: three masters, and workers.
func runMachines(t testing.TB, machines []*fakeMachine, s *store.Store) {
	t.Helper()
	c := spec.Cluster{Name: "c", Image: "kubernetes:v1", SSH: spec.SSH{Passwd: spec.NewSecret("s3cret")}}
	for i, m := range machines {
		role := spec.RoleNode
		if i < 3 {
			role = spec.RoleMaster
		}
		c.Hosts = append(c.Hosts, spec.Host{IPs: []string{m.Addr()}, Roles: []string{role}})
	}
	f := spec.Merge(&spec.File{Cluster: c}, spec.Defaults(""))
	if err := spec.Validate(f); err != nil {
		t.Fatal(err)
	}
	state, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	r, err := cluster.Apply(t.Context(), cluster.Options{
		Store: s, State: state, SSH: host.Options{Home: state, AcceptNew: true}, SkipChecks: []string{"images"},
	}, f)
	if err != nil {
		t.Fatal(err)
	}
	if r.Failed > 0 || r.Ran != len(r.Plan.Steps) {
		t.Fatalf("%d of %d steps ran, %d failed", r.Ran, len(r.Plan.Steps), r.Failed)
	}
}
