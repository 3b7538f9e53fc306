package node

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// undoStep is the mark of programs that belong to no step.
const undoStep = "undo"

// mark is an environment variable that tells, of every process of a program that
// is run, the step it belongs to.
func (m *Machine) mark(step string) string {
	return "SEALER_NODE_STEP=" + m.Root + ":" + m.Cluster + "/" + cmp.Or(step, undoStep)
}

// orphanGrace is how long a program of a dead session has to end by itself.
const orphanGrace = 10 * time.Second

// endOrphans ends the programs of the steps that a dead session left open: a
// kubeadm that goes on beside the one of the next session would undo its work.
// The caller has the machine's lock, so that no other session lives.
func (m *Machine) endOrphans(ctx context.Context) error {
	marks := []string{m.mark(undoStep)}
	for _, r := range m.Journal.Records().Open() {
		marks = append(marks, m.mark(r.Step))
	}
	began := time.Now()
	for {
		left, err := processesOf(marks)
		if err != nil || len(left) == 0 {
			return err
		}
		wait := time.Since(began)
		if wait > 2*orphanGrace {
			return fmt.Errorf("the programs of an earlier run do not end: processes %v", left)
		}
		for _, pid := range left {
			if err := end(pid, wait > orphanGrace); err != nil {
				return fmt.Errorf("end process %d of an earlier run: %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
