package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/cluster/wire"
)

// strays adds the addresses that the Clusterfile lacks to its hosts, and returns
// them: machines that left the cluster while they did not answer.
func (e *engine) strays(addresses []netip.Addr) ([]string, error) {
	nodes, err := e.file.Cluster.Nodes()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, a := range addresses {
		if !slices.ContainsFunc(nodes, func(n spec.Node) bool { return n.Address == a }) {
			out = append(out, a.String())
			e.file.Cluster.Hosts = append(e.file.Cluster.Hosts, spec.Host{IPs: []string{a.String()}, Roles: []string{spec.RoleNode}})
		}
	}
	return out, nil
}

// known refuses strays on which the cluster has left nothing.
func (e *engine) known(strays []string) error {
	var errs []error
	for _, address := range strays {
		if !slices.ContainsFunc(e.machines, func(m *machine) bool { return m.name() == address && m.changes > 0 }) {
			errs = append(errs, fmt.Errorf("%s: cluster %s has no such machine", address, e.file.Cluster.Name))
		}
	}
	return errors.Join(errs...)
}

// unanswered are the errors of the machines that do not answer.
func (e *engine) unanswered() error {
	var errs []error
	for _, m := range e.lost {
		errs = append(errs, m.Lost)
	}
	return errors.Join(errs...)
}

// planLost adds the removal of the machines that do not answer. Without leave,
// there is no cluster to remove them from.
func (e *engine) planLost(p *plan.Plan, leave bool) error {
	for _, m := range e.lost {
		if !leave {
			continue
		}
		s, err := plan.NewStep(lostKind, e.machines[0].name(), plan.LostArgs{Address: m.Label(), Master: m.Master()}, plan.Removes,
			m.Label()+" does not answer: it leaves the cluster as it is")
		if err != nil {
			return err
		}
		p.Steps = append(p.Steps, s)
	}
	return nil
}

// forgetLost removes the machines that do not answer from the cluster.
func (e *engine) forgetLost(ctx context.Context, r *Report) error {
	var errs []error
	for _, m := range e.lost {
		r.Lost = append(r.Lost, m.Label())
	}
	for _, s := range r.Plan.Steps {
		if s.Kind != lostKind {
			continue
		}
		ev := Event{Type: "begin", Host: s.Host, Step: s.ID, Kind: s.Kind, Why: s.Why}
		e.event(ev)
		var out node.StepResult
		err := e.machines[0].conn.Call(ctx, node.OpStep, node.StepRequest{Step: s}, &out, wire.Streams{})
		if err == nil && out.Error != "" {
			err = errors.New(out.Error)
		}
		ev.Type = "done"
		if err != nil {
			ev.Type, ev.Text = "failed", err.Error()
			r.Failed++
			errs = append(errs, fmt.Errorf("%s: %s: %w", s.Host, s.Why, err))
		}
		e.event(ev)
	}
	return errors.Join(errs...)
}
