package build

import (
	"context"

	"github.com/clusterimage/sealer/kubefile"
	"github.com/clusterimage/sealer/store"
)

// layersAtOnce is how many layers are written at once: while one that shrinks is
// compressed, which all processors can do, one that does not is hashed, which
// only one can. Each takes the memory of a pipeline.
const layersAtOnce = 2

// A pending layer is being written, while the steps behind it go on.
type pending struct {
	in    kubefile.Instruction
	as    store.ConfigLayer
	layer store.Layer
	err   error
	done  chan struct{}
}

// begin writes a layer with write, on top of those that were begun before. It
// waits as long as too many are being written; settle waits for all. write must
// not look at the layers below.
func (t *target) begin(ctx context.Context, in kubefile.Instruction, as store.ConfigLayer, write func() (store.Layer, error)) error {
	if t.writing == nil {
		t.writing = make(chan struct{}, layersAtOnce)
	}
	select {
	case t.writing <- struct{}{}:
	case <-ctx.Done():
		return t.fault(in, context.Cause(ctx).Error(), "", context.Cause(ctx))
	}
	p := &pending{in: in, as: as, done: make(chan struct{})}
	t.pending = append(t.pending, p)
	go func() {
		defer close(p.done)
		p.layer, p.err = write()
		<-t.writing
	}()
	return nil
}

// settle waits for the layers that were begun and puts them on top. It returns
// the faults of all.
func (t *target) settle() error {
	var errs []error
	for _, p := range t.pending {
		if <-p.done; p.err != nil {
			errs = append(errs, t.fault(p.in, p.err.Error(), "", p.err))
			continue
		}
		t.push(p.layer, p.as)
	}
	t.pending = nil
	return unique(errs)
}
