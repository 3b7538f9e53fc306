package plan

import (
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/spec"
)

// PluginArgs are the arguments of the kind "plugin": a program of the rootfs.
// The request that it reads comes as the secret SecretRequest, JSON: the
// environment of the cluster, which is in it, may hold passwords.
type PluginArgs struct {
	Program    string       `json:"program"` // in the rootfs
	Phase      extend.Phase `json:"phase"`
	Plugin     spec.Plugin  `json:"plugin"`
	Generation string       `json:"generation"`
	Kube       bool         `json:"kube,omitempty"` // gives the program a kubeconfig
	// Machines are those of the cluster, at the phases of joining: with others
	// it is other work.
	Machines []string `json:"machines,omitempty"`
}

// SecretRequest is the name of a program's request.
const SecretRequest = "request"

// PluginPhases are the phases at which Make has plugins work, in order.
func PluginPhases() []extend.Phase {
	return []extend.Phase{
		extend.Originally, extend.PreInstall, extend.PreInit, extend.PreJoin, extend.PreGuest, extend.PostInitHost, extend.AfterInstall, extend.PostInstall, extend.PostJoin,
	}
}

// Joining says whether the phase is one of machines that join a cluster that
// runs.
func Joining(p extend.Phase) bool { return p == extend.PreJoin || p == extend.PostJoin }

// CleanPhases are the phases of machines that leave, in order. PluginSteps makes
// their steps.
func CleanPhases() []extend.Phase {
	return []extend.Phase{extend.PreUninstall, extend.PreClean, extend.PostClean, extend.PostUninstall}
}

// PluginSteps returns the steps of plugins at one phase, apart from a plan: in
// the order of want.Hosts, each in the rootfs of its host's Generation. Only
// Cluster, Hosts and Plugins of want count.
func PluginSteps(want Want, phase extend.Phase) ([]Step, error) {
	m := &maker{want: want, last: map[string]string{}, plan: &Plan{}}
	for _, h := range want.Hosts {
		m.plugins(h, phase)
	}
	for i := range m.plan.Steps {
		m.plan.Steps[i].Needs, m.plan.Steps[i].After = nil, nil
	}
	return m.plan.Steps, errors.Join(m.faults...)
}

// plugins adds the work of one phase on one machine and returns the IDs of its
// steps.
func (m *maker) plugins(h Host, phase extend.Phase, needs ...string) []string {
	var ids []string
	for i, w := range m.want.Plugins {
		if w.Phase != phase || m.worker(w).Address != h.Address {
			continue
		}
		kind, args, risk := m.pluginStep(w, h, i)
		if kind == "" {
			continue
		}
		why := fmt.Sprintf("plugin %s at %s", w.Plugin, phase)
		if w.Labels != nil {
			why += " for " + w.Host.String()
		}
		id := m.add(h, kind, args, risk, why, needs...)
		m.plan.Steps[len(m.plan.Steps)-1].Phase = phase
		if phase.Stands() && h.Address == m.first().Address {
			m.after(id)
		}
		ids = append(ids, id)
	}
	return ids
}

// worker is the machine that does a plugin's work: for labels and checks the
// first master, by the API.
func (m *maker) worker(w extend.Work) Host {
	if w.Host.IsValid() && w.Labels == nil {
		for _, h := range m.want.Hosts {
			if h.Address == w.Host {
				return h
			}
		}
		return Host{} // of another verb
	}
	return m.first()
}

// pluginStep is the kind and the arguments of a plugin's step; "" for work that
// is no step.
func (m *maker) pluginStep(w extend.Work, h Host, number int) (string, any, Risk) {
	script := ScriptArgs{Number: number + 1}
	if Joining(w.Phase) {
		script.Machines = m.addresses()
	}
	if w.Phase != extend.Originally {
		script.Generation = h.Generation
	}
	switch {
	case w.Script != nil:
		script.Run, script.Kube = w.Script.Run, w.Script.Kube
		return "script", script, Changes
	case w.Etcd != nil:
		dir := w.Etcd.Dir
		if dir == "" {
			dir = path.Join(Dir(m.want.Cluster), "etcd")
		}
		script.Run, script.Kube = extend.EtcdScript(h.Kube, dir, w.Etcd.Name), true
		return "script", script, Adds
	case w.Labels != nil:
		return m.pluginLabels(w)
	case w.Check != nil:
		seconds := int(w.Check.Timeout / time.Second)
		if seconds == 0 {
			seconds = 600
		}
		return "kube.wait", WaitArgs{Nodes: m.kubeNames(), Ready: true, Seconds: seconds, Plugin: w.Plugin + " " + string(w.Phase)}, Reads
	case w.Exec != nil:
		return "plugin", PluginArgs{
			Program: w.Exec.Program, Phase: w.Phase, Plugin: w.Exec.Plugin, Generation: h.Generation, Kube: h.Master() && w.Phase.Stands(), Machines: script.Machines,
		}, Changes
	}
	return "", nil, "" // host names and preflight rules, which the engine has seen to
}

func (m *maker) pluginLabels(w extend.Work) (string, any, Risk) {
	for _, h := range m.want.Hosts {
		if h.Address != w.Host {
			continue
		}
		a := LabelArgs{Node: h.Kube, Labels: w.Labels.Set, Remove: w.Labels.Remove, Plugin: w.Plugin + " " + string(w.Phase)}
		for _, t := range w.Labels.Taints {
			a.Taints = append(a.Taints, LabelTaint(t))
		}
		return "kube.label", a, Changes
	}
	return "", nil, ""
}

func (m *maker) addresses() []string {
	out := make([]string, 0, len(m.want.Hosts))
	for _, h := range m.want.Hosts {
		out = append(out, h.Address.String())
	}
	return out
}

func (m *maker) kubeNames() []string {
	names := make([]string, 0, len(m.want.Hosts))
	for _, h := range m.want.Hosts {
		names = append(names, h.Kube)
	}
	return names
}

// standing adds the plugins of the phases between the nodes and the start
// commands. The first master goes on when all of them have ended.
func (m *maker) standing(phases ...extend.Phase) {
	first := m.first()
	for _, phase := range phases {
		before := m.last[first.Address.String()]
		var others []string
		for _, h := range m.want.Hosts[1:] {
			others = append(others, m.plugins(h, phase, before)...)
		}
		own := m.plugins(first, phase)
		if len(own) == 0 {
			m.pending = append(m.pending, others...)
		} else {
			s := &m.plan.Steps[len(m.plan.Steps)-1]
			s.Needs = append(s.Needs, others...)
		}
	}
}
