package fleet

import (
	"context"
	"io"

	"github.com/clusterimage/sealer/cluster/host"
)

// Exec runs a command on every machine, at most parallel at once; 0 is 64.
// streams returns the writers for each machine's output. The errors are in the
// order of the machines; nil means that the command ended with 0.
func (f *Fleet) Exec(ctx context.Context, c host.Command, parallel int, streams func(i int) (stdout, stderr io.Writer)) []error {
	errs := make([]error, len(f.Machines))
	each(len(f.Machines), parallel, func(i int) {
		c := c
		c.Stdout, c.Stderr = streams(i)
		errs[i] = f.Machines[i].Host.Run(ctx, c)
	})
	return errs
}
