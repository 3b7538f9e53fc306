//go:build !linux

package build

import (
	"context"
	"errors"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/image"
)

// execute returns sandbox's error: RUN needs Linux.
func (st *runStep) execute(ctx context.Context, _ *platformBuild) (image.Layer, bool, error) {
	_, err := sandbox.Start(ctx, sandbox.Options{})
	if err == nil {
		err = errors.ErrUnsupported
	}
	return image.Layer{}, false, err
}
