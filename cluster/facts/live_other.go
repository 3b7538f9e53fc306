//go:build !linux

package facts

import (
	"errors"
	"os"

	"github.com/clusterimage/sealer/cluster/plan"
)

var errSystem = errors.New("nodes run Linux")

func timeSync() (string, error)       { return "", errSystem }
func space(string, *plan.Mount) error { return errSystem }
func datasync(f *os.File) error       { return f.Sync() }
