package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/plan"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

func (a *app) run() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	cmd := &cobra.Command{
		Use:   "run IMAGE",
		Short: "Make a cluster of a ClusterImage",
		Long: `Make a Kubernetes cluster of a ClusterImage, on this machine or on others over
SSH, with no internet, and run the image's start commands. Without --masters this
machine becomes the only master, and runs workloads, too.

At the end sealer proves that every container came from the image; see
sealer check --help. The proof is kept as proof.json in the cluster's directory.
With a stranger, or when the cluster cannot be asked, the cluster runs and the
exit code is 3.

Every change of a machine is in its journal before it is made. A run that was
interrupted or that failed goes on where it was when the same command is given
again; sealer delete --all puts everything back.

An IMAGE without a Kubernetes of its own is an application. It goes onto a cluster
that stands: the one of --cluster-name, or the only one that this machine has
made. The masters' registries serve its images from then on, and the first master
runs its start commands, each once. --kubeconfig names a cluster that sealer has not
made: the images go to --registry, and this machine runs the start commands.

` + exitCodesHelp,
		Example: `  sealer run kubernetes:v1.33.13
  sealer run my-app:v1 -m 10.0.0.1-10.0.0.3 -n 10.0.0.4,10.0.0.5 --pk ~/.ssh/id_ed25519
  sealer run my-app:v1 -m 10.0.0.1 --dry-run
  sealer run shop:v2 -c my-cluster
  sealer run shop:v2 --kubeconfig ~/.kube/config --registry harbor.example.com/shop`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeImages,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.output.check(); err != nil {
				return err
			}
			if len(args) == 1 {
				s.Image = args[0]
			} else if s.file == "" {
				return usagef("run needs an image, or a Clusterfile that names one: sealer run IMAGE")
			}
			return a.apply(cmd.Context(), &s, &c)
		},
	}
	c.makes(cmd, &s, "; of an application: the cluster that it goes onto")
	s.verify.flag(cmd.Flags(), "use the image")
	cmd.Flags().StringVar(&c.plan, "plan", "", "write the plan of --dry-run to this `file`, for sealer apply --plan")
	c.app.flags(cmd)
	return cmd
}

func (a *app) applyCommand() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	cmd := &cobra.Command{
		Use:   "apply -f CLUSTERFILE",
		Short: "Make a cluster as a Clusterfile says",
		Long: `Make a cluster as a Clusterfile says, or add to it what it lacks. With --plan,
do exactly what a plan of --dry-run says; it is refused when the machines have
changed since.

` + exitCodesHelp,
		Example: `  sealer apply -f Clusterfile
  sealer apply -f Clusterfile --dry-run -o json > plan.json; sealer apply -f Clusterfile --plan plan.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.output.check(); err != nil {
				return err
			}
			if s.file == "" {
				return usagef("apply needs a Clusterfile: sealer apply -f FILE")
			}
			return a.apply(cmd.Context(), &s, &c)
		},
	}
	c.makes(cmd, &s, "")
	s.verify.flag(cmd.Flags(), "use the image")
	cmd.Flags().StringVar(&c.plan, "plan", "", "do what this `file` says, which --dry-run -o json has printed")
	return cmd
}

// apply makes a cluster of flags and files.
func (a *app) apply(ctx context.Context, s *clusterFlags, c *engineFlags) error {
	return a.withStore(func(st *store.Store) error {
		layers, err := s.layers(a)
		if err != nil {
			return err
		}
		if image := spec.Merge(layers...).Cluster.Image; image != "" {
			if err := s.signed(st, image); err != nil {
				return err
			}
			app, err := cluster.IsApplication(ctx, st, image)
			if err != nil {
				return notFound(err)
			}
			if app {
				return a.runApplication(ctx, st, s, c, layers)
			}
		}
		f, err := a.wanted(ctx, st, layers)
		if err != nil {
			return err
		}
		o := a.clusterOptions(st, c, a.clusterProgress())
		if c.plan != "" && !c.dryRun {
			o.Saved = func(facts string) (*plan.Plan, error) { return loadPlan(c.plan, facts) }
		}
		return a.applied(ctx, o, f, c)
	})
}

// wanted is the Clusterfile that the user's settings and the image's own make
// together.
func (a *app) wanted(ctx context.Context, st *store.Store, layers []*spec.File) (*spec.File, error) {
	local, err := fleet.LocalAddress()
	if err != nil {
		return nil, err
	}
	im, err := st.Image(ctx, spec.Merge(layers...).Cluster.Image, nil)
	if err != nil {
		return nil, notFound(err)
	}
	own, err := imageClusterfile(ctx, st, im)
	if err != nil {
		return nil, err
	}
	f := spec.Merge(append(layers, own, imageEnv(im), spec.Defaults(local))...)
	a.warnSpec(f)
	return f, spec.Validate(f)
}

func loadPlan(name, facts string) (*plan.Plan, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	p, err := plan.Load(f, facts)
	if errors.Is(err, plan.ErrChanged) {
		err = advise(err, "Make a new plan with --dry-run, look at it, and apply that")
	}
	return p, errors.Join(err, f.Close())
}

// applied runs the engine and prints how it ended.
func (a *app) applied(ctx context.Context, o cluster.Options, f *spec.File, c *engineFlags) error {
	r, err := cluster.Apply(ctx, o, f)
	if r != nil && c.dryRun && err == nil {
		return a.printPlan(r.Plan, c)
	}
	if r != nil && r.Kubeconfig != nil && o.Add == nil {
		if werr := a.writeKubeconfig(o.State, f.Cluster.Name, c.kubeconfig, r.Kubeconfig); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	next := "The same command goes on where it stopped; sealer delete --all -c " + f.Cluster.Name + " puts everything back"
	if o.Add != nil {
		next = "The same command goes on where it stopped"
	}
	if errors.Is(err, cluster.ErrImages) {
		return incompleteError{err}
	}
	if errors.Is(err, cluster.ErrPartly) {
		return incompleteError{advise(err, next)}
	}
	if err != nil {
		if r != nil && r.Ran > 0 {
			return advise(err, next)
		}
		return notFound(err)
	}
	if r.Ran+r.Skipped == 0 {
		printf(a.Out, "Cluster %s is as it should be: nothing was changed.\n", f.Cluster.Name)
	} else {
		passed := ""
		if r.Spread > 0 {
			passed = ", " + size(r.Spread) + " by machines to each other"
		}
		printf(a.Out, "Cluster %s runs: %d steps done, %s sent%s.\n", f.Cluster.Name, r.Ran, size(r.Sent), passed)
	}
	if c.noProof {
		return nil
	}
	return a.proved(ctx, o, f, r)
}

func (a *app) printPlan(p *plan.Plan, c *engineFlags) error {
	if c.plan != "" {
		if err := archive.WriteFile(c.plan, 0o644, p.Encode); err != nil {
			return err
		}
	}
	if c.output.kind == "json" {
		return p.Encode(a.Out)
	}
	return c.output.print(a.Out, p, p.Print)
}

// writeKubeconfig puts the operator's kubeconfig where it was asked for, or to
// ~/.kube/config where nothing stands, and says where it is.
func (a *app) writeKubeconfig(state, name, to string, content []byte) error {
	kept := filepath.Join(state, name, "kubeconfig")
	if to == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil //nolint:nilerr // it is kept all the same
		}
		to = filepath.Join(home, ".kube", "config")
		if old, err := os.ReadFile(to); err == nil && string(old) == string(content) {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			printf(a.Err, "The kubeconfig of this cluster is %s (%s is another)\n", kept, to)
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
	}
	err := archive.WriteFile(to, 0o644, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		return err
	}
	printf(a.Err, "The kubeconfig is %s\n", to)
	return os.Chmod(to, 0o600)
}

// signed checks that the key of --verify-key has signed an image.
func (o *clusterFlags) signed(st *store.Store, image string) error {
	key, err := o.verify.key()
	if err != nil || key == nil {
		return err
	}
	err = transfer.CheckKept(st, key, image)
	if errors.Is(err, sign.ErrSignature) {
		return advise(err, "A pull, and a load of an archive, bring the signatures that the image has there")
	}
	return notFound(err)
}
