package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// roles refuses a Clusterfile that gives a machine another part in the cluster than
// it has: a master that is listed first and is not in the cluster would become a
// second cluster of the same name, a worker's balancer would take the port of a
// master's API server.
func (e *engine) roles(seen []plan.Node) error {
	name, first := e.file.Cluster.Name, e.machines[0].name()
	var errs []error
	i := slices.IndexFunc(seen, func(n plan.Node) bool { return n.Role == plan.RoleFirst })
	switch {
	case i > 0:
		errs = append(errs, fmt.Errorf("%s is the first master of cluster %s: list it before %s", e.machines[i].name(), name, first))
	case i < 0:
		if k := slices.IndexFunc(seen, func(n plan.Node) bool { return n.Role != "" }); k >= 0 {
			errs = append(errs, fmt.Errorf("%s is a node of cluster %s, whose first master is not listed: list it before %s, or put the machines back with sealer delete --all", e.machines[k].name(), name, first))
		}
	}
	for i, m := range e.machines {
		flag := map[bool]string{true: "-m", false: "-n"}
		was := seen[i].Role != plan.RoleWorker
		if seen[i].Role == "" || seen[i].Role == plan.RoleFirst && i > 0 || was == m.Master() {
			continue
		}
		errs = append(errs, fmt.Errorf("%s is a %s of cluster %s: its part changes by sealer delete %s %s and sealer join %s %s",
			m.name(), seen[i].Role, name, flag[was], m.name(), flag[m.Master()], m.name()))
	}
	if len(errs) > 0 {
		return fmt.Errorf("nothing was changed: %w", errors.Join(errs...))
	}
	return nil
}

// complete refuses a Clusterfile that lacks machines of the cluster as this machine
// knows it: they would stay nodes, and a delete of all would not put them back.
func (e *engine) complete() error {
	known, err := Known(e.State, e.file.Cluster.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	nodes, err := known.Cluster.Nodes()
	if err != nil {
		return err
	}
	var lack []string
	for _, n := range nodes {
		listed := func(m *machine) bool { return m.Address == n.Address }
		if !slices.ContainsFunc(e.machines, listed) {
			lack = append(lack, n.Address.String())
		}
	}
	if len(lack) == 0 {
		return nil
	}
	return fmt.Errorf("nothing was changed: cluster %s has machines that are not listed: %s: list them, too, or take them out: sealer delete -c %s %s %s (--force where it does not answer)",
		e.file.Cluster.Name, strings.Join(lack, ", "), e.file.Cluster.Name, leaveFlag(nodes, lack[0]), lack[0])
}

// leaveFlag is the flag of delete for a machine.
func leaveFlag(nodes []spec.Node, address string) string {
	if slices.ContainsFunc(nodes, func(n spec.Node) bool { return n.Address.String() == address && n.Master() }) {
		return "-m"
	}
	return "-n"
}
