package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

// Kinds are the kinds of step by their names.
func Kinds() map[string]Kind {
	return map[string]Kind{
		"block":         blockKind{},
		"files":         filesKind{},
		"guest":         scriptKind{},
		"hostname":      hostnameKind{},
		"image":         imageKind{},
		"kube.label":    labelKind{},
		"kube.drain":    drainKind{},
		"kube.leave":    leaveKind{},
		"kube.lost":     lostKind{},
		"kube.secret":   secretKind{},
		"kube.wait":     waitKind{},
		"kubeadm.admit": admitKind{},
		"kubeadm.init":  initKind{},
		"kubeadm.join":  joinKind{},
		"kubeadm.renew": renewKind{},
		"kubeconfig":    kubeconfigKind{},
		"links":         linksKind{},
		"modules":       modulesKind{},
		"program":       programKind{},
		"rootfs":        rootfsKind{},
		"plugin":        pluginKind{},
		"script":        scriptKind{},
		"sysctl":        sysctlKind{},
		"trees":         treesKind{},
		"unit":          unitKind{},
	}
}

// Order is one step to run, with its secrets by name and a receiver of its
// output.
type Order struct {
	Step    plan.Step
	Secrets map[string]string
	Log     func(string)
}

// A Result is how a step ended.
type Result struct {
	// Skipped says that the result was there already.
	Skipped bool              `json:"skipped,omitempty"`
	Output  map[string]string `json:"output,omitempty"`
}

// Check reports whether the step's result is there. It changes nothing.
func (m *Machine) Check(ctx context.Context, s plan.Step) (bool, error) {
	k, ok := Kinds()[s.Kind]
	if !ok {
		return false, fmt.Errorf("step %s: this sealer does not know the kind", s.Kind)
	}
	return k.Check(ctx, &Work{Machine: m, Step: s}, s.Args)
}

// Run does one step: nothing when its result is there, else with the journal's
// begin and end around it. An error is in the journal, too.
func (m *Machine) Run(ctx context.Context, o Order) (Result, error) {
	k, ok := Kinds()[o.Step.Kind]
	if !ok {
		return Result{}, fmt.Errorf("step %s: this sealer does not know the kind", o.Step.Kind)
	}
	w := &Work{Machine: m, Step: o.Step, Secrets: o.Secrets, Log: o.Log}
	there, err := k.Check(ctx, w, o.Step.Args)
	if err != nil {
		return Result{}, err
	}
	if there {
		return Result{Skipped: true}, nil
	}
	if o.Step.Risk == plan.Reads { // nothing to remember
		err := k.Do(ctx, w, o.Step.Args)
		return Result{Output: w.Output}, err
	}
	if err := m.Journal.Append(journal.Record{Event: journal.Begin, Step: o.Step.ID, Kind: o.Step.Kind, Args: o.Step.Args}); err != nil {
		return Result{}, err
	}
	if err := m.do(ctx, k, w); err != nil {
		return Result{}, errors.Join(err, m.Journal.Append(journal.Record{Event: journal.Failed, Step: o.Step.ID, Kind: o.Step.Kind, Error: err.Error()}))
	}
	if err := m.Journal.Append(journal.Record{Event: journal.End, Step: o.Step.ID, Kind: o.Step.Kind}); err != nil {
		return Result{}, err
	}
	return Result{Output: w.Output}, nil
}

// do does the work and looks at its result, where one can be looked at.
func (m *Machine) do(ctx context.Context, k Kind, w *Work) error {
	if err := k.Do(ctx, w, w.Step.Args); err != nil {
		return err
	}
	switch k.(type) {
	case blockKind, filesKind, hostnameKind, imageKind, linksKind, modulesKind, programKind, rootfsKind, sysctlKind:
		if there, err := k.Check(ctx, w, w.Step.Args); err != nil || !there {
			return errors.Join(errors.New("the step ended well, yet its result is not there"), err)
		}
	}
	return nil
}
