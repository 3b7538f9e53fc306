package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/spec"
)

// execFlags are the flags of exec.
type execFlags struct {
	clusterFlags
	reachFlags
	roles, hosts []string
	asUser       bool
}

func (a *app) exec() *cobra.Command {
	var o execFlags
	cmd := &cobra.Command{
		Use:   "exec [-c NAME] [-r ROLE] [--host ADDRESS] -- COMMAND [ARG...]",
		Short: "Run a command on the machines of a cluster",
		Long: `Run a command on all machines at once: of the cluster that this machine has made
(--cluster-name, if there are several), of a Clusterfile, or of -m and -n. Each line
of output begins with the machine's address. It runs as root, through sudo
where the user of ssh is not root.

A COMMAND of one word with spaces in it is given to the machine's shell; several
words are a program and its arguments, as they stand.

Exit codes: 0 when all ended with 0, 1 when any did not, 2 wrong usage, 130
interrupted.`,
		Example: `  sealer exec -c my-cluster -r node -- reboot
  sealer exec -f Clusterfile -- uname -r
  sealer exec -f Clusterfile -r master -- 'crictl ps | wc -l'
  sealer exec -m 10.0.0.1 --as-user -- id`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runExec(cmd.Context(), &o, args) },
	}
	o.clusterFlags.flags(cmd)
	o.reachFlags.flags(cmd)
	f := cmd.Flags()
	f.StringSliceVarP(&o.roles, "role", "r", nil, "only machines with this role: master, node, or one of the Clusterfile's")
	f.StringSliceVar(&o.hosts, "host", nil, "only the machine with this address or name")
	f.BoolVar(&o.asUser, "as-user", false, "run as the user of ssh, not as root")
	return cmd
}

func (a *app) runExec(ctx context.Context, o *execFlags, args []string) (err error) {
	if len(args) == 1 && strings.ContainsAny(args[0], " \t\n") {
		args = []string{"sh", "-c", args[0]}
	}
	file, err := a.standingFile(&o.clusterFlags)
	if err != nil {
		return err
	}
	machines, err := a.reach(ctx, file, &o.reachFlags, func(nodes []spec.Node) ([]spec.Node, error) {
		return fleet.Select(nodes, o.roles, o.hosts)
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, machines.Close()) }()
	var mu sync.Mutex
	outs := make([]*prefixed, 0, 2*len(machines.Machines))
	errs := machines.Exec(ctx, host.Command{Args: args, AsUser: o.asUser}, o.parallel, func(i int) (io.Writer, io.Writer) {
		label := machines.Machines[i].Label() + ": "
		out, errOut := &prefixed{to: a.Out, label: label, mu: &mu}, &prefixed{to: a.Err, label: label, mu: &mu}
		mu.Lock()
		defer mu.Unlock()
		outs = append(outs, out, errOut)
		return out, errOut
	})
	for _, p := range outs {
		errs = append(errs, p.flush())
	}
	for i, m := range machines.Machines {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("%s: %w", m.Label(), withoutStderr(errs[i]))
		}
	}
	return errors.Join(errs...)
}

// withoutStderr takes out the lines that were printed already.
func withoutStderr(err error) error {
	var exit *host.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	e := *exit
	e.Stderr = ""
	return &e
}

// prefixed writes whole lines, each with a label before it. Several share a
// mutex, so that their lines do not mix.
type prefixed struct {
	to    io.Writer
	label string
	mu    *sync.Mutex
	line  []byte // begun
}

// maxLine is where a line without an end is broken.
const maxLine = 64 << 10

func (p *prefixed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line = append(p.line, b...)
	for {
		end := bytes.IndexByte(p.line, '\n')
		if end < 0 && len(p.line) < maxLine {
			return len(b), nil
		}
		if end < 0 {
			end = len(p.line)
		}
		if _, err := printf(p.to, "%s%s\n", p.label, p.line[:end]); err != nil {
			return 0, err
		}
		p.line = p.line[min(end+1, len(p.line)):]
	}
}

// flush writes a last line that had no end.
func (p *prefixed) flush() error {
	if len(p.line) == 0 {
		return nil
	}
	_, err := p.Write([]byte("\n"))
	return err
}
