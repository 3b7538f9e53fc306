package facts

import (
	"context"
	"fmt"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/wire"
)

// The names of the operations.
const (
	opFacts  = "facts"
	opClock  = "clock"
	opListen = "ports.listen"
	opDial   = "ports.dial"
)

// Ops returns the operations of a node that looks at the machine below root; ""
// is this machine.
func Ops(root string) map[string]wire.Handler {
	return map[string]wire.Handler{
		opFacts: func(ctx context.Context, in *wire.Incoming) (any, error) {
			var o Options
			if err := in.Decode(&o); err != nil {
				return nil, err
			}
			o.Root = root
			return Collect(ctx, o), nil
		},
		opClock:  func(context.Context, *wire.Incoming) (any, error) { return time.Now(), nil },
		opListen: serveListen,
		opDial:   serveDial,
	}
}

// clockTries is how often a node is asked for its time: the fastest answer says
// most exactly how far the clocks are apart.
const clockTries = 3

// Ask returns the facts of the node at the other end, with Host, Clock and
// ClockErr filled in.
func Ask(ctx context.Context, c *wire.Conn, name string, o Options) (plan.Facts, error) {
	var f plan.Facts
	if err := c.Call(ctx, opFacts, o, &f, wire.Streams{}); err != nil {
		return f, fmt.Errorf("facts of %s: %w", name, err)
	}
	f.Host = name
	for i := range clockTries {
		var there time.Time
		before := time.Now()
		if err := c.Call(ctx, opClock, nil, &there, wire.Streams{}); err != nil {
			return f, fmt.Errorf("clock of %s: %w", name, err)
		}
		trip := time.Since(before)
		if half := trip / 2; i == 0 || half < f.ClockErr {
			// Wall clocks are compared: the monotonic reading means nothing there.
			f.Clock, f.ClockErr = there.Sub(before.Round(0).Add(half)), half
		}
	}
	return f, nil
}
