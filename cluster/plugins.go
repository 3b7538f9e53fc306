package cluster

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
)

// plugins returns the work of the plugins of image and Clusterfile, and gives
// the machines the names that plugins give them. It has to be called before the
// nodes' names are used.
func (e *engine) plugins(img *source) ([]extend.Work, error) {
	set, err := extend.Load(img.files)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", img.Name, err)
	}
	for _, w := range set.Warnings {
		e.event(Event{Type: "log", Text: "warning: " + w})
	}
	all := extend.Over(e.file.Plugins, set.Plugins)
	nodes := make([]spec.Node, 0, len(e.machines))
	for _, m := range e.machines {
		nodes = append(nodes, m.Node)
	}
	types := extend.Programs(all, set.Programs)
	if err := extend.Validate(all, nodes, types); err != nil {
		return nil, err
	}
	work, err := extend.Plan(all, nodes, nodes, types, plan.PluginPhases()...)
	if err != nil {
		return nil, err
	}
	e.notYet(all)
	for _, w := range work {
		for _, m := range e.machines {
			if w.Hostname != "" && w.Host == m.Address && m.Name == "" {
				m.Name = w.Hostname
			}
		}
	}
	return work, nil
}

// notYet says which phases of plugins no plan has.
func (e *engine) notYet(plugins []spec.Plugin) {
	for _, p := range plugins {
		for _, name := range p.Actions() {
			if phase, err := extend.ParsePhase(name); err == nil && !slices.Contains(plan.PluginPhases(), phase) && !slices.Contains(plan.CleanPhases(), phase) {
				e.event(Event{Type: "log", Text: fmt.Sprintf("warning: plugin %s: nothing runs at phase %s yet", p.Name, name)})
			}
		}
	}
}

// request makes the request that the program of a plugin's step reads on stdin.
// It travels as a secret of the step.
func (x *runner) request(s plan.Step) (map[string]string, error) {
	var a plan.PluginArgs
	if err := json.Unmarshal(s.Args, &a); err != nil {
		return nil, err
	}
	req, err := extend.NewRequest(a.Plugin, a.Phase, x.file.Cluster, nil)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(req)
	return map[string]string{plan.SecretRequest: string(b)}, err
}
