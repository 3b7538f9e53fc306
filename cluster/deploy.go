package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/render"
	"github.com/clusterimage/sealer/cluster/spec"
)

// A Target is a cluster that sealer has not made, with the registry that it
// pulls from.
type Target struct {
	Kubeconfig string // a file, absolute
	Server     string // the address of the API server, which names the cluster
	// Registry is HOST[:PORT][/PREFIX]; "" is the name that the image was built
	// for.
	Registry string
	// Push brings the container images to Registry; nil when there are none.
	Push func(context.Context) error
}

// thisMachine is the host of the steps of Deploy.
const thisMachine = "this machine"

// Deploy runs the start commands of the application of f on a cluster that
// sealer has not made: on this machine, in a copy of the image's files, with the
// cluster's kubeconfig, each once for a generation. Options.State remembers which commands ran.
func Deploy(ctx context.Context, o Options, f *spec.File, t Target) (_ *Report, err error) {
	img, err := readImage(ctx, o.Store, f.Cluster.Image)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	d := &deploy{engine: &engine{Options: o, file: f}, img: img, target: t}
	p, err := d.plan()
	if err != nil {
		return nil, err
	}
	root := filepath.Join(o.State, ".foreign", digest([]byte(t.Server))[7:19])
	s := node.NewServer(node.ServerOptions{Root: root, Store: o.Store.Root(), Kubeconfig: t.Kubeconfig})
	defer func() { err = errors.Join(err, s.Close()) }()
	ids, err := s.Check(ctx, node.CheckRequest{Cluster: p.Cluster, Steps: p.Steps})
	if err != nil {
		return nil, err
	}
	done := map[string]bool{}
	for _, id := range ids {
		done[id] = true
	}
	r := &Report{Plan: p.Without(done), Stands: true}
	if o.DryRun {
		return r, nil
	}
	if o.Confirm != nil && len(r.Plan.Steps) > 0 {
		if err := o.Confirm(r.Plan); err != nil {
			return r, err
		}
	}
	if t.Push != nil {
		if err := t.Push(ctx); err != nil {
			return r, err
		}
	}
	if len(r.Plan.Steps) == 0 {
		return r, nil
	}
	if _, err := s.Open(ctx, p.Cluster, holder(plan.Deploy)); err != nil {
		return r, err
	}
	return r, d.run(ctx, s, r)
}

// deploy is one run of Deploy.
type deploy struct {
	*engine
	img    *source
	target Target
	in     node.Inputs // without the values of secrets
}

// plan makes the steps, which follow each other.
func (d *deploy) plan() (*plan.Plan, error) {
	var err error
	if d.in, err = d.inputs(false); err != nil {
		return nil, err
	}
	b, err := json.Marshal(d.in)
	if err != nil {
		return nil, err
	}
	inputs := digest(b)
	generation := strings.TrimPrefix(digest([]byte(d.img.Digest+inputs)), "sha256:")[:12]
	p := &plan.Plan{
		APIVersion: plan.Version, Verb: plan.Deploy, Cluster: "application", Image: d.img.Name, Digest: d.img.Digest, Hosts: []string{thisMachine},
	}
	add := func(kind string, args any, why string) error {
		s, err := plan.NewStep(kind, thisMachine, args, plan.Adds, why)
		if n := len(p.Steps); n > 0 {
			s.Needs = []string{p.Steps[n-1].ID}
		}
		p.Steps = append(p.Steps, s)
		return err
	}
	commands, err := d.img.commands(d.file)
	if err != nil {
		return nil, err
	}
	err = add("rootfs", plan.RootfsArgs{Image: d.img.full.Digest, Generation: generation, Inputs: inputs, Aside: true}, "files of the image, generation "+generation)
	for i, c := range commands {
		args := plan.ScriptArgs{Run: c.Run, Dir: c.Dir, Generation: generation, Env: c.Env, Number: i + 1, Kube: true}
		err = errors.Join(err, add("guest", args, fmt.Sprintf("start command %d: %s", i+1, c.Run)))
	}
	return p, err
}

// inputs are the values for templates and commands. With resolve, the secrets
// in them are resolved.
func (d *deploy) inputs(resolve bool) (node.Inputs, error) {
	in := node.Inputs{Configs: d.file.Configs, App: d.file.Application}
	url := d.target.Registry
	if url == "" {
		url = d.img.Private
	}
	hostport, _, _ := strings.Cut(url, "/")
	domain, port, err := net.SplitHostPort(hostport)
	if err != nil {
		domain, port = hostport, ""
	}
	env := d.file.Cluster.Env
	for _, kv := range [][2]string{{"RegistryDomain", domain}, {"RegistryPort", port}, {"RegistryURL", url}} {
		if !hasKey(env, kv[0]) {
			in.Env = append(in.Env, kv[0]+"="+kv[1])
		}
	}
	more, err := expanded(env, resolve)
	in.Env = append(in.Env, more...)
	return in, err
}

// expanded are lines KEY=VALUE; with resolve, with the secrets that they refer
// to.
func expanded(env []string, resolve bool) ([]string, error) {
	out := make([]string, 0, len(env))
	for _, line := range env {
		k, v, _ := strings.Cut(line, "=")
		if resolve && spec.HasReference(v) {
			var err error
			if v, err = sources().Expand(v); err != nil {
				return nil, fmt.Errorf("env %s: %w", k, err)
			}
		}
		out = append(out, k+"="+v)
	}
	return out, nil
}

// run does the steps. The first that fails ends the run.
func (d *deploy) run(ctx context.Context, s *node.Server, r *Report) error {
	in, err := d.inputs(true)
	if err != nil {
		return err
	}
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	secrets := map[string]string{plan.SecretInputs: string(b), plan.SecretEnv: strings.Join(render.NewEnv(in.Env).Lines(), "\x00")}
	for i, step := range r.Plan.Steps {
		ev := Event{Type: "begin", Host: step.Host, Step: step.ID, Kind: step.Kind, Why: step.Why}
		d.event(ev)
		begin := time.Now()
		_, _, err := s.Run(ctx, node.Order{Step: step, Secrets: secrets, Log: func(line string) {
			d.event(Event{Type: "log", Host: step.Host, Step: step.ID, Kind: step.Kind, Text: line})
		}})
		ev.Type, ev.Elapsed = "done", time.Since(begin)
		if err != nil {
			ev.Type, ev.Text = "failed", err.Error()
			d.event(ev)
			r.Failed = len(r.Plan.Steps) - i
			return fmt.Errorf("%s: %w", step.Why, err)
		}
		d.event(ev)
		r.Ran++
	}
	return nil
}

// ProveApplication compares the cluster of a kubeconfig file with one
// ClusterImage and returns the report: containers of other images, which a
// cluster of somebody else has, are its Strangers. It waits for containers as
// Prove does, but not for those of strangers.
func ProveApplication(ctx context.Context, o Options, f *spec.File, t Target, patience time.Duration) (*proof.Report, error) {
	config, err := kube.ReadConfig(t.Kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", t.Kubeconfig, err)
	}
	images, err := Carried(ctx, o.Store, f.Cluster.Image)
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(patience)
	for {
		r, err := look(ctx, client, images, nil)
		if err != nil || len(r.Waiting) == 0 || !time.Now().Before(end) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(proofPoll):
		}
	}
}
