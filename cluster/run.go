package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/render"
	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/cluster/wire"
)

// A runner runs the steps of one plan.
type runner struct {
	*engine
	img    *source
	report *Report

	mu       sync.Mutex
	ended    map[string]chan struct{} // by step: closed when it has ended
	failed   map[string]bool
	material map[string]string // outputs of finished steps that later steps need, such as the join token
	errs     map[string]error  // by host: the first failure

	tracker  spread.Tracker
	throttle *spread.Throttle // of all that this machine sends
}

// run runs all steps: each as soon as the steps that it needs have ended, and
// one at a time on a machine. When a step fails, the steps that need it are not
// run; all others are.
func (e *engine) run(ctx context.Context, r *Report, img *source) error {
	x := &runner{
		engine: e, img: img, report: r, ended: map[string]chan struct{}{}, failed: map[string]bool{},
		material: map[string]string{}, errs: map[string]error{}, throttle: spread.NewThrottle(e.file.Cluster.Distribution.Bytes()),
	}
	machines := map[string]*machine{}
	for _, m := range e.machines {
		machines[m.name()] = m
	}
	for _, s := range r.Plan.Steps {
		x.ended[s.ID] = make(chan struct{})
		if machines[s.Host] == nil {
			return fmt.Errorf("plan: step %s: the Clusterfile has no machine %s", s.Kind, s.Host)
		}
	}
	limit := make(chan struct{}, e.Parallel)
	var wg sync.WaitGroup
	for _, s := range r.Plan.Steps {
		wg.Go(func() {
			defer close(x.ended[s.ID])
			x.step(ctx, s, machines[s.Host], limit)
		})
	}
	wg.Wait()
	r.Stands = !x.failedKind("kubeadm.init")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var errs []error
	for _, h := range r.Plan.Hosts {
		errs = append(errs, x.errs[h])
	}
	return errors.Join(errs...)
}

func (x *runner) failedKind(kind string) bool {
	return slices.ContainsFunc(x.report.Plan.Steps, func(s plan.Step) bool { return s.Kind == kind && x.failed[s.ID] })
}

// step waits for the steps that s needs, then runs s.
func (x *runner) step(ctx context.Context, s plan.Step, m *machine, limit chan struct{}) {
	for _, id := range append(slices.Clone(s.Needs), s.After...) {
		select {
		case <-x.ended[id]:
		case <-ctx.Done():
			x.fail(s, nil)
			return
		}
	}
	x.mu.Lock()
	blocked := slices.ContainsFunc(s.Needs, func(id string) bool { return x.failed[id] })
	x.mu.Unlock()
	if blocked {
		x.fail(s, nil)
		x.event(Event{Type: "blocked", Host: s.Host, Step: s.ID, Kind: s.Kind, Why: s.Why})
		return
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	limit <- struct{}{}
	defer func() { <-limit }()
	if ctx.Err() != nil {
		x.fail(s, nil)
		return
	}
	begin := time.Now()
	x.event(Event{Type: "begin", Host: s.Host, Step: s.ID, Kind: s.Kind, Why: s.Why})
	skipped, err := x.do(ctx, s, m)
	ev := Event{Type: "done", Host: s.Host, Step: s.ID, Kind: s.Kind, Why: s.Why, Elapsed: time.Since(begin)}
	switch {
	case err != nil:
		x.fail(s, err)
		ev.Type, ev.Text = "failed", err.Error()
	case skipped:
		ev.Type = "skipped"
	}
	x.mu.Lock()
	if err == nil && skipped {
		x.report.Skipped++
	} else if err == nil {
		x.report.Ran++
	}
	x.mu.Unlock()
	x.event(ev)
}

// fail marks a step; err is nil when it was not tried.
func (x *runner) fail(s plan.Step, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed[s.ID] = true
	x.report.Failed++
	if err != nil && x.errs[s.Host] == nil {
		x.errs[s.Host] = fmt.Errorf("%s: %s: %w", s.Host, s.Why, err)
	}
}

// do sends the content that the step needs and runs it on its machine.
func (x *runner) do(ctx context.Context, s plan.Step, m *machine) (skipped bool, err error) {
	if s.Kind == "image" {
		if err := x.send(ctx, s, m); err != nil {
			return false, err
		}
	}
	secrets, err := x.secrets(s, m)
	if err != nil {
		return false, err
	}
	var out node.StepResult
	log := func(l wire.Log) {
		x.event(Event{Type: "log", Host: s.Host, Step: s.ID, Kind: s.Kind, Text: l.Text})
	}
	if err := m.conn.Call(ctx, node.OpStep, node.StepRequest{Step: s, Secrets: secrets}, &out, wire.Streams{Log: log}); err != nil {
		return false, err
	}
	if err := x.state.mirror(s.Host, out.Records); err != nil {
		return false, fmt.Errorf("keep the journal: %w", err)
	}
	if out.Error != "" {
		return false, errors.New(out.Error)
	}
	x.mu.Lock()
	maps.Copy(x.material, out.Output)
	x.mu.Unlock()
	return out.Skipped, nil
}

// secrets are the values that a step is given.
func (x *runner) secrets(s plan.Step, m *machine) (map[string]string, error) {
	switch s.Kind {
	case "rootfs":
		h := plan.Host{Node: m.Node, Kube: m.kube}
		in, err := x.inputs(x.partOf(s), h, true)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(in)
		return map[string]string{plan.SecretInputs: string(b)}, err
	case "files":
		var a plan.FilesArgs
		if err := json.Unmarshal(s.Args, &a); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(a.Files, func(f plan.FileArg) bool { return f.Secret != "" }) {
			return nil, nil
		}
		return x.registrySecrets(m)
	case "kubeadm.join":
		x.mu.Lock()
		defer x.mu.Unlock()
		return maps.Clone(x.material), nil
	case "script", "guest":
		in, err := x.inputs(x.partOf(s), plan.Host{Node: m.Node, Kube: m.kube}, true)
		return map[string]string{plan.SecretEnv: strings.Join(render.NewEnv(in.Env).Lines(), "\x00")}, err
	case "plugin":
		return x.request(s)
	case "kube.secret":
		b, err := json.Marshal(x.about(x.img))
		return map[string]string{plan.SecretData: string(b)}, err
	}
	return nil, nil
}

// partOf is the image whose files a step makes or runs in.
func (x *runner) partOf(s plan.Step) *part {
	var a struct {
		Generation string `json:"generation"`
	}
	if err := json.Unmarshal(s.Args, &a); err == nil && x.parts[a.Generation] != nil {
		return x.parts[a.Generation]
	}
	return &part{x.img, x.file}
}

func (x *runner) registrySecrets(m *machine) (map[string]string, error) {
	ca, err := x.state.ca()
	if err != nil {
		return nil, err
	}
	domain, _, err := registryName(x.file.Cluster.Registry.Local, x.img.Private)
	if err != nil {
		return nil, err
	}
	names := []string{domain}
	addresses := []string{m.name()}
	if l := x.file.Cluster.Registry.Local; l != nil {
		names = append(names, l.Cert.SubjectAltName.DNSNames...)
		addresses = append(addresses, l.Cert.SubjectAltName.IPs...)
	}
	p, err := x.state.registryCert(ca, addresses, names)
	return map[string]string{plan.SecretRegistryCert: string(p.cert), plan.SecretRegistryKey: string(p.key), plan.SecretRegistryCAKey: string(ca.key)}, err
}

// kubeconfig fetches the operator's, from the first master.
func (e *engine) kubeconfig(ctx context.Context, r *Report) error {
	if !r.Stands || len(e.machines) == 0 {
		return nil
	}
	first := e.machines[0]
	server := "https://" + net.JoinHostPort(first.name(), strconv.Itoa(e.apiPort))
	s, err := plan.NewStep("kubeconfig", first.name(), plan.KubeconfigArgs{Server: server}, plan.Reads, "the operator's kubeconfig")
	if err != nil {
		return err
	}
	var out node.StepResult
	if err := first.conn.Call(ctx, node.OpStep, node.StepRequest{Step: s}, &out, wire.Streams{}); err != nil {
		return fmt.Errorf("%s: %w", first.name(), err)
	}
	if out.Error != "" {
		return fmt.Errorf("%s: kubeconfig: %s", first.name(), out.Error)
	}
	r.Kubeconfig = []byte(out.Output["kubeconfig"])
	return e.state.write("kubeconfig", r.Kubeconfig)
}
