package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/facts"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
)

// undoKind is the kind of the steps of a delete: the machine puts back all that
// its journal says.
const undoKind = "undo"

// The kinds of the first master's steps before and after that, for a machine that
// leaves a cluster that stays.
const (
	drainKind = "kube.drain"
	leaveKind = "kube.leave"
	lostKind  = "kube.lost"
)

// Delete puts machines back to their state before the cluster: all machines
// when addresses is empty, else the machines named, which first leave the
// cluster. f is the cluster's Clusterfile. A machine that fails does not stop
// the others: its changes that are not undone yet stay in its journal, and the
// same call goes on with them. At the end, each machine that stays drops the
// addresses of the machines that left. The error wraps ErrPartly when one could
// not, and ErrAway when all machines were to go and one did not answer.
//
// A machine that has left without an answer (see Options.Force) may be named
// again, to be put back.
func Delete(ctx context.Context, o Options, f *spec.File, addresses []netip.Addr) (*Report, error) {
	r, err := remove(ctx, o, f, addresses)
	if err != nil || o.DryRun || len(addresses) == 0 || !r.Stands {
		return r, err
	}
	return r, mend(ctx, o, f)
}

// mend makes the cluster of f again as it is to be without the machines that
// left: names, addresses of masters and registries.
func mend(ctx context.Context, o Options, f *spec.File) error {
	o.Confirm, o.Runtimes, o.member = nil, false, true
	_, err := Apply(ctx, o, f)
	if err != nil && !errors.Is(err, ErrPartly) {
		err = fmt.Errorf("%w: %w", ErrPartly, err)
	}
	return err
}

// remove takes machines away. f is left without them.
func remove(ctx context.Context, o Options, f *spec.File, addresses []netip.Addr) (_ *Report, err error) {
	e, err := newEngine(o, f)
	if err != nil {
		return nil, err
	}
	all := len(addresses) == 0
	if o.Force {
		e.spare = func(n spec.Node) bool { return all || slices.Contains(addresses, n.Address) }
	}
	strays, err := e.strays(addresses)
	if err != nil {
		return nil, err
	}
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	defer e.disconnect()
	unlock, err := e.state.lock(holder(plan.Delete))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	w, err := e.planRemoval(ctx, addresses, strays)
	if err != nil || e.DryRun {
		return w.report, err
	}
	if e.Confirm != nil {
		if err := e.Confirm(w.report.Plan); err != nil {
			return w.report, err
		}
	}
	if err := e.carryOut(ctx, w); err != nil || all {
		return w.report, err
	}
	e.file.Cluster.Hosts = without(e.file.Cluster.Hosts, addresses)
	return w.report, e.state.keep(e.file)
}

// A removal is a delete that is planned: the machines that go, and the steps.
type removal struct {
	all    bool // the whole cluster goes
	leave  bool // the machines leave a cluster that stays
	goners []*machine
	clean  *cleaning
	report *Report // with the plan
}

// planRemoval plans the delete of the machines with these addresses; no address
// means all machines. strays are machines that an earlier delete --force left
// behind. On an error the removal has no report.
func (e *engine) planRemoval(ctx context.Context, addresses []netip.Addr, strays []string) (w removal, err error) {
	w.all = len(addresses) == 0
	w.goners = slices.DeleteFunc(slices.Clone(e.machines), func(m *machine) bool { return !w.all && !slices.Contains(addresses, m.Address) })
	if err := e.mayGo(addresses); err != nil {
		return w, err
	}
	r := &Report{}
	if r.Stands, err = e.stands(ctx); err != nil {
		return w, err
	}
	w.leave = !w.all && r.Stands // else there is nothing to leave
	p, err := e.planDelete(ctx, w.goners, w.all, w.leave)
	if err != nil {
		return w, err
	}
	if err := e.known(strays); err != nil {
		return w, err
	}
	if w.clean, err = e.cleaning(ctx, w.goners, w.all); err != nil {
		return w, err
	}
	p.Steps = append(w.clean.all(), p.Steps...)
	r.Plan, w.report = p, r
	return w, nil
}

// carryOut runs the steps of a removal. After the delete of a whole cluster the
// operator's machine keeps no record of the cluster.
func (e *engine) carryOut(ctx context.Context, w removal) error {
	if err := e.open(ctx, w.report.Plan.Verb); err != nil {
		return err
	}
	if err := w.clean.run(ctx, extend.PreUninstall, e.machines[0]); err != nil {
		return fmt.Errorf("%s: %w", e.machines[0].name(), err)
	}
	err := errors.Join(e.forgetLost(ctx, w.report), e.takeAway(ctx, w.report, w.clean, w.goners, w.leave))
	switch {
	case err != nil || !w.all:
		return err
	case len(e.lost) > 0:
		return fmt.Errorf("%w: %w", ErrAway, e.unanswered())
	}
	return e.state.forget()
}

// mayGo refuses the loss of the first master, and of all machines.
func (e *engine) mayGo(addresses []netip.Addr) error {
	if len(e.machines) == 0 {
		return e.unanswered()
	}
	nodes, err := e.file.Cluster.Nodes()
	if err == nil && slices.Contains(addresses, nodes[0].Address) {
		err = fmt.Errorf("%s: the first master cannot leave: delete the cluster with --all", nodes[0].Address)
	}
	return err
}

// stands asks the first master whether kubeadm has made the cluster.
func (e *engine) stands(ctx context.Context) (bool, error) {
	var n plan.Node
	first := e.machines[0]
	if err := first.conn.Call(ctx, node.OpLook, node.LookRequest{Cluster: e.file.Cluster.Name}, &n, wire.Streams{}); err != nil {
		return false, fmt.Errorf("%s: %w", first.name(), err)
	}
	return n.Role != "", nil
}

// planDelete asks the machines for the changes in their journals and plans to
// undo them. With leave, they are first taken out of the cluster.
func (e *engine) planDelete(ctx context.Context, goners []*machine, all, leave bool) (*plan.Plan, error) {
	verb := plan.Delete
	if !all {
		verb = plan.Leave
	}
	p := &plan.Plan{APIVersion: plan.Version, Verb: verb, Cluster: e.file.Cluster.Name}
	for _, m := range goners {
		p.Hosts = append(p.Hosts, m.name())
	}
	if !all {
		p.Hosts = append([]string{e.machines[0].name()}, p.Hosts...)
	}
	if err := e.planLost(p, leave); err != nil {
		return nil, err
	}
	seen, err := e.lookAt(ctx, p.Cluster, goners)
	if err != nil {
		return nil, err
	}
	if p.Facts, err = plan.Digest(seen); err != nil {
		return nil, err
	}
	first := e.machines[0].name()
	add := func(kind, host string, args any, why string) error {
		s, err := plan.NewStep(kind, host, args, plan.Removes, why)
		p.Steps = append(p.Steps, s)
		return err
	}
	for i, m := range goners {
		args := plan.LeaveArgs{Node: m.kube, Seconds: e.drainSeconds()}
		if leave {
			err = add(drainKind, first, args, "the pods of node "+m.kube+" go")
		}
		err = errors.Join(err, add(undoKind, m.name(), map[string]any{"changes": seen[i].Changes}, fmt.Sprintf("%d changes are put back", len(seen[i].Changes))))
		if leave {
			err = errors.Join(err, add(leaveKind, first, args, "node "+m.kube+" leaves the cluster"))
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// lookAt asks machines for their state, in their order, and notes in each machine
// what undoing it needs: its node's name, its changes, and whether it has a rootfs.
func (e *engine) lookAt(ctx context.Context, cluster string, machines []*machine) ([]plan.Node, error) {
	seen := make([]plan.Node, len(machines))
	at := map[*machine]int{}
	for i, m := range machines {
		at[m] = i
	}
	current := path.Join(plan.Dir(cluster), "rootfs", "current")
	err := e.each(ctx, machines, func(ctx context.Context, m *machine) error {
		var n plan.Node
		if err := m.conn.Call(ctx, node.OpLook, node.LookRequest{Cluster: cluster, Files: []string{current}}, &n, wire.Streams{}); err != nil {
			return err
		}
		var err error
		n.Facts, err = facts.Ask(ctx, m.conn, m.name(), facts.Options{})
		seen[at[m]] = n
		m.rootfs, m.changes = n.Files[current].Link != "", len(n.Changes)
		m.kube = strings.ToLower(n.Hostname)
		if m.Name != "" {
			m.kube = strings.ToLower(m.Name)
		}
		return err
	})
	return seen, err
}

func (e *engine) drainSeconds() int {
	if d := time.Duration(e.file.Cluster.Rollout.DrainTimeout); d > 0 {
		return int(d.Seconds())
	}
	return 300
}

// takeAway undoes the machines: the workers at once, then the masters from the
// last to the first, which takes the others out of etcd.
func (e *engine) takeAway(ctx context.Context, r *Report, clean *cleaning, goners []*machine, leave bool) error {
	var masters, workers []*machine
	for _, m := range goners {
		if m.Master() {
			masters = append(masters, m)
		} else {
			workers = append(workers, m)
		}
	}
	var mu sync.Mutex
	undo := func(ctx context.Context, m *machine) error {
		err := e.undo(ctx, r.Plan, clean, m, leave)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			r.Failed++
			return err
		}
		r.Ran++
		return nil
	}
	err := e.each(ctx, workers, undo)
	for _, m := range slices.Backward(masters) {
		if uerr := undo(ctx, m); uerr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", m.name(), uerr))
		}
	}
	return err
}

// undo undoes the changes of one machine. With leave, the node is first taken
// out of the cluster.
func (e *engine) undo(ctx context.Context, p *plan.Plan, clean *cleaning, m *machine, leave bool) error {
	begin := time.Now()
	ev := Event{Host: m.name(), Kind: undoKind}
	for _, s := range p.Steps {
		if s.Host == m.name() && s.Kind == undoKind {
			ev.Step, ev.Why = s.ID, s.Why
		}
	}
	ev.Type = "begin"
	e.event(ev)
	err := e.undoMachine(ctx, p, clean, m, leave)
	ev.Type, ev.Elapsed = "done", time.Since(begin)
	if err != nil {
		ev.Type, ev.Text = "failed", err.Error()
	}
	e.event(ev)
	return err
}

func (e *engine) undoMachine(ctx context.Context, p *plan.Plan, clean *cleaning, m *machine, leave bool) error {
	if err := clean.run(ctx, extend.PreClean, m); err != nil {
		return err
	}
	if leave {
		if err := e.onFirst(ctx, p, drainKind, m.kube); err != nil {
			return err
		}
	}
	streams := wire.Streams{Log: func(l wire.Log) { e.event(Event{Type: "log", Host: m.name(), Kind: undoKind, Text: l.Text}) }}
	if err := m.conn.Call(ctx, node.OpUndo, node.UndoRequest{}, nil, streams); err != nil {
		return err
	}
	// The image's files lie on the machine until it is forgotten.
	err := clean.run(ctx, extend.PostClean, m)
	if m == e.machines[0] { // the last of all
		err = errors.Join(err, clean.run(ctx, extend.PostUninstall, m))
	}
	if err != nil {
		return err
	}
	if err := m.conn.Call(ctx, node.OpUndo, node.UndoRequest{Forget: true, Purge: !m.local}, nil, streams); err != nil || !leave {
		return err
	}
	return e.onFirst(ctx, p, leaveKind, m.kube)
}

// onFirst has the first master do the steps of a kind about a node.
func (e *engine) onFirst(ctx context.Context, p *plan.Plan, kind, kube string) error {
	first := e.machines[0]
	for _, s := range p.Steps {
		var a plan.LeaveArgs
		if s.Kind != kind || !isNode(s, &a, kube) {
			continue
		}
		var out node.StepResult
		first.turn.Lock()
		err := first.conn.Call(ctx, node.OpStep, node.StepRequest{Step: s}, &out, wire.Streams{})
		first.turn.Unlock()
		if err == nil && out.Error != "" {
			err = errors.New(out.Error)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isNode says whether a step is about the node.
func isNode(s plan.Step, a *plan.LeaveArgs, kube string) bool {
	return json.Unmarshal(s.Args, a) == nil && a.Node == kube
}

// without are the hosts that stay.
func without(hosts []spec.Host, gone []netip.Addr) []spec.Host {
	var out []spec.Host
	for _, h := range hosts {
		addresses, err := spec.ParseAddresses(h.IPs...)
		if err != nil {
			out = append(out, h)
			continue
		}
		var ips []string
		for _, a := range addresses {
			if slices.Contains(gone, a.Addr()) {
				continue
			}
			if a.Port() == 0 {
				ips = append(ips, a.Addr().String())
			} else {
				ips = append(ips, a.String())
			}
		}
		if h.IPs = ips; len(ips) > 0 {
			out = append(out, h)
		}
	}
	return out
}
