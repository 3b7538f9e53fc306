package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

// cleaning is the work of plugins while machines leave, by phase.
type cleaning struct {
	*runner
	steps map[extend.Phase][]plan.Step
}

// cleaning plans the plugins that run when machines leave. They come from the
// Clusterfile and from the cluster's image. An image that is no longer in the
// store contributes none.
func (e *engine) cleaning(ctx context.Context, goners []*machine, all bool) (*cleaning, error) {
	c := &cleaning{
		runner: &runner{engine: e, img: &source{Image: plan.Image{Private: e.state.registryDomain()}}, report: &Report{}, failed: map[string]bool{}, material: map[string]string{}, errs: map[string]error{}},
		steps:  map[extend.Phase][]plan.Step{},
	}
	set := extend.Set{}
	img, err := readImage(ctx, e.Store, e.file.Cluster.Image)
	if err == nil {
		set, err = extend.Load(img.files)
		err = errors.Join(err, img.Close())
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) { // a damaged image keeps no machine
		e.event(Event{Type: "log", Text: fmt.Sprintf("warning: plugins of image %s are left out: %v", e.file.Cluster.Image, err)})
	}
	want := plan.Want{Cluster: e.file.Cluster.Name}
	var nodes, leaving []spec.Node
	for _, m := range e.machines {
		nodes = append(nodes, m.Node)
		want.Hosts = append(want.Hosts, plan.Host{Node: m.Node, Kube: m.kube, Generation: "current"})
	}
	for _, m := range goners {
		leaving = append(leaving, m.Node)
	}
	plugins := extend.Over(e.file.Plugins, set.Plugins)
	for _, phase := range plan.CleanPhases() {
		if !all && (phase == extend.PreUninstall || phase == extend.PostUninstall) {
			continue
		}
		var err error
		if want.Plugins, err = extend.Plan(plugins, nodes, leaving, extend.Programs(plugins, set.Programs), phase); err != nil {
			return nil, err
		}
		if c.steps[phase], err = plan.PluginSteps(want, phase); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// all are the steps, for a plan.
func (c *cleaning) all() []plan.Step {
	var out []plan.Step
	for _, phase := range plan.CleanPhases() {
		out = append(out, c.steps[phase]...)
	}
	return out
}

// run does the work of a phase on a machine; the machine's lock must be ours.
// With Options.Force, a plugin that fails is told and does not keep the machine.
func (c *cleaning) run(ctx context.Context, phase extend.Phase, m *machine) error {
	for _, s := range c.steps[phase] {
		if s.Host != m.name() {
			continue
		}
		if !m.rootfs { // the run that failed did not come so far
			c.event(Event{Type: "log", Host: s.Host, Kind: s.Kind, Text: "warning: " + s.Why + " is left out: the image's files are not on the machine"})
			continue
		}
		begin := time.Now()
		ev := Event{Type: "begin", Host: s.Host, Step: s.ID, Kind: s.Kind, Why: s.Why}
		c.event(ev)
		_, err := c.do(ctx, s, m)
		ev.Type, ev.Elapsed = "done", time.Since(begin)
		if err != nil {
			ev.Type, ev.Text = "failed", err.Error()
		}
		c.event(ev)
		if err != nil && !c.Force {
			return fmt.Errorf("%s: %w", s.Why, err)
		}
	}
	return nil
}
