package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/proof"
	"github.com/clusterimage/sealer/store"
)

// checkFlags are the flags of check.
type checkFlags struct {
	proof, pre bool
	kubeconfig string
	images     []string
}

func (a *app) checks() *cobra.Command {
	var o output
	var f checkFlags
	var pre preFlags
	cmd := &cobra.Command{
		Use:   "check --pre | --proof [-c NAME | --image NAME...]",
		Short: "Check machines before a run, or that everything that runs came from ClusterImages",
		Long: `Check the machines of a cluster that is to be made, or a running cluster.

--pre looks at all machines of a Clusterfile, or of -m and -n, and changes none:
system, kernel, cgroups, memory, disks, swap, clocks, names and addresses that two
share, ports that are taken, leftovers of another cluster, networks that overlap;
and it lets the machines reach each other's ports. Each failure has its remedy;
with one the exit code is 3. A Preflight document of the Clusterfile sets
thresholds and leaves checks out, each with a reason. sealer itself lies in
/var/lib/sealer/bin of the machines meanwhile.

--proof compares every container of every pod, init and ephemeral ones too, and
every image that the nodes' runtimes keep, with ClusterImages: the digest that a
node reports must be that of an index, a manifest or a config inside one of them.
Each is traced to the file and line that asked for the image when it was built.
The references of all workloads must be inside, so that a new pod, or a new node,
can pull them. An image that is not inside is a stranger: it is named, and the exit
code is 3.

Without --image it is the cluster -c that this machine has made, with all of its
ClusterImages. Its machines are connected to: each container runtime tells all of
its images and containers itself (a kubelet reports 50 images at most), and each
registry is asked whether it serves every image inside now. The whole proof, with
the images' digests and the time, is kept in clusters/NAME/proof.json of the
store's directory. With --image it is the cluster of --kubeconfig, through its API
alone; keep the output of -o json as a record.

` + exitCodesHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.check(), f.check()); err != nil {
				return err
			}
			switch {
			case f.pre:
				return a.checkPre(cmd.Context(), &pre, &o)
			case len(f.images) == 0:
				return a.proveKnown(cmd.Context(), &pre, &o)
			}
			return a.proveBy(cmd.Context(), f, &o)
		},
	}
	cmd.Flags().BoolVar(&f.proof, "proof", false, "prove that everything that runs came from the images of --image")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "file with the address and the credentials of the cluster (default: KUBECONFIG, else ~/.kube/config)")
	cmd.Flags().StringArrayVar(&f.images, "image", nil, "a ClusterImage of the cluster, in the local store, instead of those of -c; may be repeated")
	cmd.Flags().BoolVar(&f.pre, "pre", false, "check the machines before anything is changed on one")
	pre.clusterFlags.flags(cmd)
	pre.reachFlags.flags(cmd)
	pre.skipFlag(cmd.Flags())
	pre.machineFlag(cmd)
	o.flags(cmd, "text")
	return cmd
}

// proveBy proves a cluster through its API alone, and prints the proof.
func (a *app) proveBy(ctx context.Context, f checkFlags, o *output) error {
	r, err := a.prove(ctx, f)
	if err != nil {
		return err
	}
	err = o.print(a.Out, r, func(w io.Writer) error { return printProof(w, r) })
	return errors.Join(err, unproven(r))
}

func (f checkFlags) check() error {
	if f.pre == f.proof {
		return usagef("say what to check: --pre or --proof")
	}
	if f.pre {
		return nil
	}
	if len(f.images) == 0 && f.kubeconfig != "" {
		return usagef("--proof --kubeconfig: say with --image which ClusterImages the cluster was made of")
	}
	return nil
}

// proveKnown makes the proof of a cluster that this machine has made, and keeps
// it.
func (a *app) proveKnown(ctx context.Context, pre *preFlags, out *output) error {
	f, err := a.known(&pre.clusterFlags)
	if err != nil {
		return advise(err, "Of a cluster of somebody else: sealer check --proof --image NAME --kubeconfig FILE")
	}
	return a.withStore(func(s *store.Store) error {
		o := cluster.Options{
			Store: s, State: a.clusterState(), SSH: pre.reachFlags.options(a), Parallel: pre.parallel,
			LocalArgs: []string{"--root", s.Root()}, Logger: a.logger(),
		}
		if pre.machine != "" {
			o.NodeArgs = []string{"--machine", pre.machine}
		}
		images, err := cluster.Images(o.State, f)
		if err != nil {
			return err
		}
		runtimes, err := cluster.Runtimes(ctx, o, f)
		if err != nil {
			return notFound(err)
		}
		r, err := cluster.Prove(ctx, o, f, runtimes, 0)
		if err != nil {
			return fmt.Errorf("proof: %w", err)
		}
		err = out.print(a.Out, r, func(w io.Writer) error { return printProof(w, r) })
		return errors.Join(err, notProved(r, strings.Join(images, ", "), filepath.Join(o.State, f.Cluster.Name, "proof.json")))
	})
}

// prove makes the proof that f asks for.
func (a *app) prove(ctx context.Context, f checkFlags) (*proof.Report, error) {
	files := kubeconfigs(f.kubeconfig)
	file := strings.Join(files, string(filepath.ListSeparator))
	config, err := kube.ReadConfigs(files, "")
	if err != nil {
		return nil, advise(err, "Name the cluster's file with: --kubeconfig FILE (on a master: /etc/kubernetes/admin.conf)")
	}
	client, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	var r *proof.Report
	err = a.withStore(func(s *store.Store) error {
		var images []proof.Carried
		var errs []error
		for _, name := range f.images {
			c, err := cluster.Carried(ctx, s, name)
			images = append(images, c...)
			errs = append(errs, notFound(err))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		r, err = proof.Make(ctx, client, images, nil, time.Now())
		if err != nil {
			return advise(fmt.Errorf("proof: %w", err), "The cluster of "+file+" must answer, and its user must be allowed to list pods, nodes and workloads.")
		}
		return nil
	})
	return r, err
}

// unproven is the error of a report with strangers.
func unproven(r *proof.Report) error {
	var errs []error
	if n := len(r.Strangers); n > 0 {
		errs = append(errs, incompleteError{fmt.Errorf("%s from no image of --image", counted(n, "reference or container is", "references or containers are"))})
	}
	if n := len(r.Unseen); n > 0 {
		errs = append(errs, incompleteError{fmt.Errorf("%s not looked at whole", counted(n, "node was", "nodes were"))})
	}
	return advise(errors.Join(errs...), "Name all ClusterImages of the cluster with --image; remove what is in none of them, or build it into one.")
}

func printProof(w io.Writer, r *proof.Report) error {
	var rows [][]string
	for _, c := range r.Containers {
		rows = append(rows, []string{c.Where, c.Name, c.Mirrored, shortID(c.Digest), foundAt(c)})
	}
	if err := table(w, []string{"WHERE", "CONTAINER", "IMAGE", "DIGEST", "FOUND"}, rows); err != nil {
		return err
	}
	printOpen(w, r)
	if r.Asked > 0 {
		printf(w, "%s told all that it has\n", counted(r.Asked, "container runtime", "container runtimes"))
	}
	_, err := printf(w, "%s: %d pods on %d nodes: %d containers, %d images of runtimes and %d references of workloads are inside; %d strangers\n",
		r.Time.Format(time.RFC3339), r.Pods, r.Nodes, len(r.Containers), len(r.NodeImages), len(r.Workloads), len(r.Strangers))
	return err
}

// printOpen prints the parts of a proof that are not proven.
func printOpen(w io.Writer, r *proof.Report) {
	for _, c := range r.Waiting {
		printf(w, "not started yet: %s, container %s: %s is inside\n", c.Where, c.Name, c.Reference)
	}
	for _, s := range r.Strangers {
		printf(w, "STRANGER: %s", s.Where)
		if s.Name != "" {
			printf(w, ", container %s", s.Name)
		}
		printf(w, ": %s: %s\n", strings.Join(slicesOf(s.Reference, s.ImageID), " "), s.Why)
	}
	for _, u := range r.Unserved {
		printf(w, "NOT SERVED: %s\n", u)
	}
	for _, u := range r.Unseen {
		printf(w, "NOT SEEN: %s\n", u)
	}
}

// foundAt is where the build found the image first.
func foundAt(c proof.Container) string {
	if len(c.Found) == 0 {
		return c.ClusterImage
	}
	f := c.Found[0]
	if f.Line == 0 {
		return f.File
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// slicesOf returns the words that are not empty.
func slicesOf(words ...string) []string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}
