package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/clusterimage/sealer/cluster/extend"
	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/store"
)

// Options of the engine.
type Options struct {
	// Store has the ClusterImage.
	Store *store.Store
	// State is the directory in which clusters are remembered.
	State string
	// SSH is how machines are connected to.
	SSH host.Options
	// NodeArgs are further arguments of "sealer node" on the machines, for tests.
	NodeArgs []string
	// LocalArgs are the arguments for this machine alone, such as the place of its
	// store.
	LocalArgs []string
	// Parallel bounds the machines that are worked on at once; 0 is 64.
	Parallel int
	// Confirm is asked before the first change; nil goes on. Its error ends the
	// run.
	Confirm func(*plan.Plan) error
	// DryRun ends after the plan.
	DryRun bool
	// Runtimes asks the machines at the end for Report.Runtimes.
	Runtimes bool
	// Saved is a plan of an earlier dry run: only that is done; nil plans anew.
	Saved func(facts string) (*plan.Plan, error)
	// Add is the Clusterfile about an application that comes to the cluster, whose
	// name and image it has; nil adds none.
	Add *spec.File
	// Force replaces files in the way that sealer did not make. Of Delete: plugins
	// that fail keep no machine, and machines that do not answer leave as they are.
	Force bool
	// SkipChecks are names of preflight checks that are left out.
	SkipChecks []string
	// member says that the machines belong to the cluster already and need no
	// preflight.
	member bool
	// Events is called for each Event; nil drops them. It must be safe for
	// concurrent use.
	Events func(Event)
	// Logger gets messages for developers; nil discards them.
	Logger *slog.Logger
}

// An Event is one change of the work.
type Event struct {
	Time time.Time `json:"time"`
	Type string    `json:"type"` // connected, begin, log, done, skipped, failed, blocked, sent
	Host string    `json:"host,omitempty"`
	Step string    `json:"step,omitempty"` // its ID
	Kind string    `json:"kind,omitempty"`
	Why  string    `json:"why,omitempty"`
	// Text is a line of log, or why a step failed.
	Text    string        `json:"text,omitempty"`
	Bytes   int64         `json:"bytes,omitempty"`
	Elapsed time.Duration `json:"elapsed,omitempty"`
}

// A Report is the result of a run.
type Report struct {
	Plan *plan.Plan `json:"plan"`
	// Ran, Skipped and Failed count steps. Failed includes the steps that a failed
	// step blocked.
	Ran     int   `json:"ran"`
	Skipped int   `json:"skipped"`
	Failed  int   `json:"failed"`
	Sent    int64 `json:"sent"`   // bytes of blobs, by the engine
	Spread  int64 `json:"spread"` // bytes of blobs, by machines to each other
	// Kubeconfig is for the operator; empty when the cluster does not stand.
	Kubeconfig []byte `json:"-"`
	// Runtimes are what the machines say of their container runtimes and
	// registries, for a proof.
	Runtimes []proof.Runtime `json:"-"`
	// Stands says that the control plane works, even if steps failed.
	Stands bool `json:"stands"`
	// Lost are the addresses of machines that left without an answer: nothing was
	// put back there.
	Lost []string `json:"lost,omitempty"`
}

// ErrPreflight is wrapped by the error of checks that failed before anything was
// changed.
var ErrPreflight = errors.New("nothing was changed: a check failed")

// ErrImages is wrapped by the error about an image without the container images
// that its kubeadm wants.
var ErrImages = errors.New("the ClusterImage is incomplete")

// ErrApplication is wrapped by the error about an image that has no Kubernetes: it
// is meant for a cluster that stands.
var ErrApplication = errors.New("it is an application without a Kubernetes of its own")

// ErrPartly is wrapped by the error of a run whose cluster runs while some
// machines failed.
var ErrPartly = errors.New("the cluster runs, but some of its steps failed")

// ErrAway is wrapped when a delete of all machines could not reach some of them.
var ErrAway = errors.New("some machines did not answer, and nothing was put back there")

// engine is one run.
type engine struct {
	Options
	file     *spec.File
	state    state
	machines []*machine // the masters first
	// spare reports whether a machine may be out of reach; nil: none may. The
	// machines of lost are out of reach.
	spare   func(spec.Node) bool
	lost    []*fleet.Machine
	fleet   *fleet.Fleet
	measure bool // how fast the masters\' disks are
	// program is sealer for machines of another architecture; nil has none.
	program func(goos, goarch string) (*session.Program, error)
	own     *session.Program
	work    []extend.Work // of the plugins
	apiPort int
	apps    []*part
	parts   map[string]*part // by generation: whose files they are
}

func (e *engine) event(ev Event) {
	if e.Events != nil {
		ev.Time = time.Now().UTC()
		e.Events(ev)
	}
}

func newEngine(o Options, f *spec.File) (*engine, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Parallel = cmp.Or(o.Parallel, 64)
	own, err := session.Own()
	return &engine{Options: o, file: f, state: state{filepath.Join(o.State, f.Cluster.Name)}, own: own, parts: map[string]*part{}}, err
}

// holder names this run in the lock of every machine.
func holder(verb plan.Verb) journal.Holder {
	name := os.Getenv("USER")
	if h, err := os.Hostname(); err == nil {
		name += "@" + h
	}
	return journal.Holder{Name: name, PID: os.Getpid(), Since: time.Now().UTC(), Verb: string(verb)}
}

// Apply makes the cluster of the Clusterfile f, which is merged and valid. In a
// cluster that runs already, only the missing parts are made. The error wraps
// ErrPartly when the control plane works and some steps failed. The report is
// returned beside an error too, once there is a plan.
func Apply(ctx context.Context, o Options, f *spec.File) (_ *Report, err error) {
	if err := f.Unsupported(); err != nil {
		return nil, err
	}
	e, err := newEngine(o, f)
	if err != nil {
		return nil, err
	}
	img, err := readImage(ctx, o.Store, f.Cluster.Image)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	if img.Kubernetes == "" && img.Type == image.TypeAppInstaller {
		return nil, fmt.Errorf("image %s: %w", f.Cluster.Image, ErrApplication)
	}
	e.program, e.measure = img.program, true
	if err := e.connect(ctx); err != nil {
		return nil, err
	}
	defer e.disconnect()
	unlock, err := e.state.lock(holder(plan.Create))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := e.adopt(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.closeApps()) }()
	if err := e.openApps(ctx); err != nil {
		return nil, err
	}
	seen, err := e.look(ctx, img)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(e.roles(seen), e.complete()); err != nil {
		return nil, err
	}
	if e.work, err = e.plugins(img); err != nil {
		return nil, err
	}
	if !e.member {
		if err := e.preflight(ctx, img, seen); err != nil {
			return nil, err
		}
	}
	want, err := e.want(ctx, img, seen)
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(want, img.Image, seen)
	if err != nil {
		return nil, err
	}
	if e.Saved != nil {
		if p, err = e.Saved(p.Facts); err != nil {
			return nil, err
		}
	}
	return e.execute(ctx, p, img)
}

// execute leaves out the steps that are done, asks for consent, and runs the
// rest.
func (e *engine) execute(ctx context.Context, p *plan.Plan, img *source) (*Report, error) {
	r := &Report{Plan: p}
	if !e.DryRun {
		if err := e.open(ctx, plan.Create); err != nil {
			return r, err
		}
	}
	done, err := e.done(ctx, p)
	if err != nil {
		return r, err
	}
	r.Plan = remaining(p, done, e.state.owed())
	if e.DryRun {
		return r, nil
	}
	if e.Confirm != nil && len(r.Plan.Steps) > 0 {
		if err := e.Confirm(r.Plan); err != nil {
			return r, err
		}
	}
	if err := errors.Join(e.state.keep(e.file), e.keepApps(), e.state.keepPlan(r.Plan)); err != nil {
		return r, err
	}
	err = e.run(ctx, r, img)
	if kerr := e.kubeconfig(ctx, r); kerr != nil {
		return r, errors.Join(err, kerr)
	}
	if err != nil && r.Stands {
		return r, fmt.Errorf("%w: %w", ErrPartly, err)
	}
	if err == nil && e.Runtimes {
		r.Runtimes, err = e.runtimes(ctx)
	}
	return r, err
}

// remaining is the plan without the steps that are done or not wanted. The waits
// after a step that is left are left, too.
func remaining(p *plan.Plan, done, owed map[string]bool) *plan.Plan {
	count := len(done)
	left := map[string]bool{}
	for _, s := range needed(p.Without(done), owed).Steps {
		left[s.ID] = true
	}
	settled := map[string]bool{}
	for _, s := range p.Steps {
		settled[s.ID] = !left[s.ID]
	}
	p.Stale(settled)
	out := p.Without(settled)
	out.Done = min(count, out.Done) // some are not done, but not wanted
	return out
}

// needed drops the admission of new machines when nobody joins, and the plugins
// of joining unless somebody joins a cluster that runs, or an earlier run owes
// them.
func needed(p *plan.Plan, owed map[string]bool) *plan.Plan {
	runs := !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Kind == "kubeadm.init" })
	joins := slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Kind == "kubeadm.join" })
	drop := map[string]bool{}
	for _, s := range p.Steps {
		if s.Kind == "kubeadm.admit" && !joins || plan.Joining(s.Phase) && !(runs && joins) && !owed[s.ID] {
			drop[s.ID] = true
		}
	}
	done := p.Done
	p = p.Without(drop)
	p.Done = done // they are not done, but not wanted
	return p
}
