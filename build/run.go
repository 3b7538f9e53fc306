package build

import (
	"errors"

	"github.com/clusterimage/sealer/kubefile"
)

func (t *target) planRun(in *kubefile.Run) (step, error) {
	return nil, t.fault(in, "RUN is not written yet", "", errors.ErrUnsupported)
}
