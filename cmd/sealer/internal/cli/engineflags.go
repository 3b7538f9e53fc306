package cli

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/store"
)

// engineFlags are the flags that all commands of the apply engine have beside those of the cluster.
type engineFlags struct {
	reachFlags
	yes, dryRun, force        bool
	noProof                   bool
	skip                      []string
	plan, kubeconfig, machine string
	output                    output
	app                       appFlags
}

// flags adds the flags to cmd. force is the description of --force.
func (c *engineFlags) flags(cmd *cobra.Command, force string) {
	f := cmd.Flags()
	f.BoolVarP(&c.yes, "yes", "y", false, "do not ask before the first change")
	f.BoolVar(&c.dryRun, "dry-run", false, "print the plan and change nothing")
	f.BoolVar(&c.force, "force", false, force)
	c.reachFlags.flags(cmd)
	f.StringSliceVar(&c.skip, "skip-check", nil, "leave out this preflight `check`; its failure names it")
	c.machineFlag(cmd)
}

// makes adds the flags of the commands that make a cluster or a part of it.
// kubeconfig is what --kubeconfig means besides.
func (c *engineFlags) makes(cmd *cobra.Command, s *clusterFlags, kubeconfig string) {
	s.flags(cmd)
	c.flags(cmd, "replace files in the way that sealer did not make; delete puts them back")
	cmd.Flags().BoolVar(&c.noProof, "no-proof", false, "do not prove at the end that all that runs came from the image")
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "write the kubeconfig to this `file`"+kubeconfig)
	c.output.flags(cmd, "text")
}

// machineFlag adds the flag of tests.
func (c *engineFlags) machineFlag(cmd *cobra.Command) { machineFlag(cmd, &c.machine) }

func (o *preFlags) machineFlag(cmd *cobra.Command) { machineFlag(cmd, &o.machine) }

func machineFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "machine", "", "the `directory` that stands for every machine, for tests")
	_ = cmd.Flags().MarkHidden("machine") // it exists
}

// clusterState is the directory that remembers clusters.
func (a *app) clusterState() string { return filepath.Join(a.storeRoot(), "clusters") }

func (a *app) clusterOptions(s *store.Store, c *engineFlags, p *clusterProgress) cluster.Options {
	o := cluster.Options{
		Store: s, State: a.clusterState(), Parallel: c.parallel, DryRun: c.dryRun, Runtimes: !c.noProof, Force: c.force, SkipChecks: c.skip,
		Events: p.event, Logger: a.logger(), LocalArgs: []string{"--root", s.Root()},
		SSH: c.reachFlags.options(a),
	}
	if c.machine != "" {
		o.NodeArgs = []string{"--machine", c.machine}
	}
	if !c.yes && !c.dryRun {
		o.Confirm = a.confirm
	}
	return o
}

// interactive says whether somebody can answer a question.
func (a *app) interactive() bool {
	f, ok := a.In.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errDeclined ends a run that the user did not want.
var errDeclined = errors.New("nothing was changed")

// confirm prints the plan, and asks where somebody can answer. Without a
// terminal only additions go on by themselves.
func (a *app) confirm(p *plan.Plan) error {
	if !a.interactive() {
		if p.Verb == plan.Create || p.Verb == plan.Join || p.Verb == plan.Deploy || p.Verb == plan.Renew {
			return nil
		}
		return usagef("%s takes something away: say --yes where nobody can be asked", p.Verb)
	}
	if err := p.Print(a.Err); err != nil {
		return err
	}
	return a.ask("Go on? [y/N] ")
}

func (a *app) ask(question string) error {
	printf(a.Err, "%s", question)
	line, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return nil
	}
	return errDeclined
}
