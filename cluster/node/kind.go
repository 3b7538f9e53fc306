package node

import (
	"context"
	"encoding/json"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/plan"
)

// A Kind is one kind of step. Its methods may be called from several
// goroutines, for different steps.
type Kind interface {
	// Check reports whether the step's result is there. It changes nothing. The
	// error is about looking; a result that is not there is no error.
	Check(ctx context.Context, w *Work, args json.RawMessage) (bool, error)
	// Do makes the result. It copes with the remains of an earlier Do that was cut
	// off.
	Do(ctx context.Context, w *Work, args json.RawMessage) error
}

// A Work is one step on its way on one machine.
type Work struct {
	*Machine
	Step plan.Step
	// Secrets are the values that the arguments name, by their names. They
	// are never written to the journal or a log.
	Secrets map[string]string
	// Log takes a line for the operator.
	Log func(line string)
	// Output is handed back to the engine when the step is done; later steps
	// get it as secrets.
	Output map[string]string
}

// A Machine is the machine that the work is done on.
type Machine struct {
	// Root is the directory that all paths are below: "/" but in tests.
	Root string
	// Cluster is the name of the cluster.
	Cluster string
	// Store is the directory of the image store.
	Store string
	// Program is the sealer that units start.
	Program string
	// Kubeconfig is the administrator's file; "" is kubeadm's admin.conf.
	Kubeconfig string
	Journal    *journal.Journal
	Units      Units
}

// Units starts and stops services: with systemd, or with sealer's own
// supervisor where there is no systemd.
type Units interface {
	// Install makes the unit known from its file, in systemd's format, whose
	// name is the unit's.
	Install(ctx context.Context, unit string) error
	// Start starts the unit, now and at each boot, or restarts it.
	Start(ctx context.Context, unit string, restart bool) error
	// Stop stops the unit, now and at each boot. A unit that is not there is
	// stopped.
	Stop(ctx context.Context, unit string) error
	// State is the unit's state.
	State(ctx context.Context, unit string) (UnitState, error)
	// Tail returns the last lines that the unit wrote.
	Tail(ctx context.Context, unit string, lines int) (string, error)
}

// A UnitState is the state of a service.
type UnitState struct {
	Active, Enabled bool
}
