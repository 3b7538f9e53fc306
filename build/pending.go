package build

import (
	"context"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/kubefile"
)

// layersAtOnce layers are written at a time. Two overlap well: compressing uses
// all CPUs, hashing one. Each costs a pipeline's memory.
const layersAtOnce = 2

// A pending layer is being written, while the steps behind it go on.
type pending struct {
	in    kubefile.Instruction
	as    image.ConfigLayer
	layer image.Layer
	err   error
	done  chan struct{}
}

// begin writes a layer with write, in the background, on top of the layers
// begun before. It waits while layersAtOnce are being written; settle waits for
// all. write must not read the layers below.
func (pb *platformBuild) begin(ctx context.Context, in kubefile.Instruction, as image.ConfigLayer, write func() (image.Layer, error)) error {
	if pb.writing == nil {
		pb.writing = make(chan struct{}, layersAtOnce)
	}
	select {
	case pb.writing <- struct{}{}:
	case <-ctx.Done():
		return pb.fault(in, context.Cause(ctx).Error(), "", context.Cause(ctx))
	}
	p := &pending{in: in, as: as, done: make(chan struct{})}
	pb.pending = append(pb.pending, p)
	go func() {
		defer close(p.done)
		p.layer, p.err = write()
		<-pb.writing
	}()
	return nil
}

// settle waits for the layers that were begun and puts them on top. It returns
// the faults of all.
func (pb *platformBuild) settle() error {
	var errs []error
	for _, p := range pb.pending {
		if <-p.done; p.err != nil {
			errs = append(errs, pb.fault(p.in, p.err.Error(), "", p.err))
			continue
		}
		pb.push(p.layer, p.as)
	}
	pb.pending = nil
	return unique(errs)
}
