package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/cluster/facts"
	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/cluster/wire"
)

// A machine is one host of a run with its session.
type machine struct {
	spec.Node
	local bool
	host  host.Host
	conn  *wire.Conn
	open  bool   // its lock is ours
	kube  string // its name in the cluster
	// rootfs says that the image's files lie on it, and changes is how many changes
	// its journal has; set for a delete.
	rootfs  bool
	changes int
	// offer is how other machines fetch blobs from it, once offering is done.
	offer    spread.Offer
	offering sync.Once
	// turn is held by the step that works on the machine: one at a time.
	turn sync.Mutex
}

func (m *machine) name() string { return m.Address.String() }

// sources is where secrets are read from.
func sources() spec.Sources {
	return spec.Sources{Env: os.LookupEnv, ReadFile: os.ReadFile}
}

// connect begins a session with every machine. All that fail are reported, in
// the order of the hosts.
func (e *engine) connect(ctx context.Context) error {
	nodes, err := e.file.Cluster.Nodes()
	if err != nil {
		return err
	}
	nodes = workloads(nodes, e.file.Kubeadm)
	if e.fleet, err = fleet.Reach(ctx, nodes, e.SSH, sources(), e.spare); err != nil {
		return err
	}
	for _, m := range e.fleet.Machines {
		if m.Lost != nil {
			e.lost = append(e.lost, m)
			continue
		}
		e.machines = append(e.machines, &machine{Node: m.Node, local: m.Local, host: m.Host})
	}
	return e.each(ctx, e.machines, e.begin)
}

// workloads lets the masters run workloads in a cluster without workers, which
// could start no ordinary pod otherwise. A master whose taint of the control
// plane the Clusterfile names, under the host or in InitConfiguration, keeps it.
func workloads(nodes []spec.Node, docs []spec.Document) []spec.Node {
	for _, d := range docs {
		registration, _ := d.Tree["nodeRegistration"].(map[string]any)
		if _, says := registration["taints"]; says && d.Kind == "InitConfiguration" {
			return nodes
		}
	}
	if slices.ContainsFunc(nodes, spec.Node.Worker) {
		return nodes
	}
	for i, n := range nodes {
		tainted := slices.ContainsFunc(n.Taints, func(text string) bool {
			t, err := spec.ParseTaint(text)
			return err == nil && !t.Remove && strings.HasPrefix(t.Key, "node-role.kubernetes.io/")
		})
		if !tainted {
			nodes[i].Roles = append(slices.Clone(n.Roles), spec.RoleNode)
		}
	}
	return nodes
}

// begin starts the session of one machine.
func (e *engine) begin(ctx context.Context, m *machine) error {
	args := e.NodeArgs
	if m.local {
		args = append(slices.Clone(args), e.LocalArgs...)
	}
	conn, err := session.Open(ctx, m.host, session.Options{
		Own: e.own, Program: e.program, Args: args, Hello: wire.Hello{OS: runtime.GOOS, Arch: runtime.GOARCH, UID: os.Getuid(), PID: os.Getpid()},
		Copied: func(n int64) { e.event(Event{Type: "sent", Host: m.name(), Text: "sealer", Bytes: n}) },
	})
	if err != nil {
		return err
	}
	m.conn = conn
	e.event(Event{Type: "connected", Host: m.name()})
	return nil
}

// each calls f for every machine at once, bounded, and returns all errors in the
// order of the machines, each with the machine's name.
func (e *engine) each(ctx context.Context, machines []*machine, f func(context.Context, *machine) error) error {
	errs := make([]error, len(machines))
	var g errgroup.Group
	g.SetLimit(e.Parallel)
	for i, m := range machines {
		g.Go(func() error {
			if err := f(ctx, m); err != nil {
				errs[i] = fmt.Errorf("%s: %w", m.name(), err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return errors.Join(errs...)
}

func (e *engine) disconnect() {
	for _, m := range e.machines {
		if m.conn != nil {
			_ = m.conn.Close() // its locks end with its process
		}
	}
	if e.fleet != nil {
		_ = e.fleet.Close()
	}
}

// look asks every machine for its facts and for the traces of the cluster on
// it. The nodes come in the order of the machines.
func (e *engine) look(ctx context.Context, img *source) ([]plan.Node, error) {
	seen := make([]plan.Node, len(e.machines))
	at := map[*machine]int{}
	for i, m := range e.machines {
		at[m] = i
	}
	masters := map[bool][]string{false: digests(img.Layers), true: digests(e.served(img))}
	err := e.each(ctx, e.machines, func(ctx context.Context, m *machine) error {
		q := node.LookRequest{Cluster: e.file.Cluster.Name, Blobs: masters[m.Master()], Files: img.Targets()}
		var n plan.Node
		if err := m.conn.Call(ctx, node.OpLook, q, &n, wire.Streams{}); err != nil {
			return err
		}
		var err error
		if n.Facts, err = facts.Ask(ctx, m.conn, m.name(), facts.Options{Fsync: e.measure && m.Master() && !slices.Contains(n.Clusters, q.Cluster)}); err != nil {
			return err
		}
		n.Local = m.local
		seen[at[m]] = n
		return nil
	})
	return seen, err
}

func digests(blobs []plan.Blob) []string {
	out := make([]string, len(blobs))
	for i, b := range blobs {
		out[i] = b.Digest
	}
	return out
}

// open takes the lock of every machine, in the order of the hosts, so that two
// engines never wait for each other.
func (e *engine) open(ctx context.Context, verb plan.Verb) error {
	q := node.OpenRequest{Cluster: e.file.Cluster.Name, Holder: holder(verb)}
	for _, m := range e.machines {
		if err := m.conn.Call(ctx, node.OpOpen, q, nil, wire.Streams{}); err != nil {
			return fmt.Errorf("%s: %w", m.name(), err)
		}
		m.open = true
	}
	return nil
}

// done asks every machine which of its steps are done.
func (e *engine) done(ctx context.Context, p *plan.Plan) (map[string]bool, error) {
	done := map[string]bool{}
	var mu sync.Mutex
	err := e.each(ctx, e.machines, func(ctx context.Context, m *machine) error {
		var steps []plan.Step
		for _, s := range p.Steps {
			if s.Host == m.name() {
				steps = append(steps, s)
			}
		}
		var ids []string
		if err := m.conn.Call(ctx, node.OpCheck, node.CheckRequest{Cluster: e.file.Cluster.Name, Steps: steps}, &ids, wire.Streams{}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for _, id := range ids {
			done[id] = true
		}
		return nil
	})
	return done, err
}
