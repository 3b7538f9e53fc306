package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/preflight"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

// preFlags are the flags of check --pre.
type preFlags struct {
	clusterFlags
	reachFlags
	skip    []string
	machine string
}

func (o *preFlags) skipFlag(f *pflag.FlagSet) {
	f.StringSliceVar(&o.skip, "skip-check", nil, "leave this check of --pre out; several with commas (a Preflight document says the reason, too)")
}

// checkPre looks at the machines of a Clusterfile and changes nothing.
func (a *app) checkPre(ctx context.Context, o *preFlags, out *output) error {
	file, err := a.wantedFile(&o.clusterFlags)
	if err != nil {
		return err
	}
	opts := cluster.Options{
		State: a.clusterState(), SSH: o.reachFlags.options(a), Parallel: o.parallel, SkipChecks: o.skip,
		LocalArgs: []string{"--root", a.storeRoot()}, Logger: a.logger(),
	}
	report, err := a.preflight(ctx, opts, file)
	if err != nil {
		return err
	}
	err = out.print(a.Out, report, func(w io.Writer) error { return printPreflight(w, report) })
	if n := report.Count(preflight.Fail); n > 0 {
		failed := incompleteError{fmt.Errorf("preflight: %s", counted(n, "check failed", "checks failed"))}
		err = errors.Join(err, advise(failed, "Mend what is marked fail, or leave a check out with a Preflight document that says why"))
	}
	return err
}

// preflight judges with the image, where the store has it.
func (a *app) preflight(ctx context.Context, o cluster.Options, f *spec.File) (r preflight.Report, err error) {
	if f.Cluster.Image == "" {
		return cluster.Preflight(ctx, o, f)
	}
	err = a.withStore(func(s *store.Store) error {
		o.Store = s
		if _, err := s.Image(ctx, f.Cluster.Image, nil); errors.Is(err, store.ErrNotFound) {
			printf(a.Err, "Warning: image %s is not in the store: architecture, versions and space for it are not checked\n", f.Cluster.Image)
			machines := *f
			machines.Cluster.Image = ""
			f = &machines
		} else if err != nil {
			return err
		}
		r, err = cluster.Preflight(ctx, o, f)
		return err
	})
	return r, err
}

// printPreflight prints a line for each result, and under it its remedy.
func printPreflight(w io.Writer, r preflight.Report) error {
	hosts := 0
	for _, x := range r.Results {
		hosts = max(hosts, len(x.Hosts))
	}
	rows := make([][]string, 0, len(r.Results))
	for _, x := range r.Results {
		on := strings.Join(x.Hosts, ",")
		if len(x.Hosts) == hosts && hosts > 1 {
			on = "all"
		}
		rows = append(rows, []string{x.Check, string(x.Level), on, x.Message})
		if x.Remedy != "" {
			rows = append(rows, []string{"", "", "", "-> " + x.Remedy})
		}
	}
	return table(w, []string{"CHECK", "RESULT", "HOSTS", "DETAIL"}, rows)
}
