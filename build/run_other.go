//go:build !linux

package build

import (
	"context"
	"fmt"
	"runtime"

	"github.com/clusterimage/sealer/store"
)

// RunCommand is the first argument by which a program that calls Build starts
// itself for RUN, on Linux.
const RunCommand = "run-in-namespace"

// RunChild does nothing: RUN needs Linux.
func RunChild() int { return 1 }

func (st *runStep) execute(context.Context, *target) (store.Layer, bool, error) {
	return store.Layer{}, false, fmt.Errorf("RUN needs Linux, this is %s", runtime.GOOS)
}
