package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/kube"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
	"github.com/clusterimage/sealer/transfer"
)

// appFlags are the flags of an application that goes onto a cluster that sealer
// has not made.
type appFlags struct {
	registryFlags
	registry string
}

func (f *appFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.registry, "registry", "", "the registry of a cluster that sealer has not made: `HOST[:PORT][/PREFIX]`; an application's images go there")
	f.add(cmd.Flags())
}

// runApplication brings an application to a cluster that stands: one of those
// that this machine has made, or the one of --kubeconfig.
func (a *app) runApplication(ctx context.Context, st *store.Store, s *clusterFlags, c *engineFlags, layers []*spec.File) error {
	f := spec.Merge(layers...)
	if len(f.Cluster.Hosts) > 0 {
		return usagef("image %s is an application without a Kubernetes of its own: it goes onto a cluster that stands, named by --cluster-name or --kubeconfig, and takes no machines", f.Cluster.Image)
	}
	im, err := st.Image(ctx, f.Cluster.Image, nil)
	if err != nil {
		return notFound(err)
	}
	own, err := imageClusterfile(ctx, st, im)
	if err != nil {
		return err
	}
	f = spec.Merge(append(layers, own, imageEnv(im), spec.Defaults("127.0.0.1"))...)
	a.warnSpec(f)
	if err := spec.Validate(f); err != nil {
		return err
	}
	f.Cluster.Hosts, f.Kubeadm, f.Preflight = nil, nil, nil
	if len(f.Plugins) > 0 {
		return usagef("the Clusterfile of an application cannot have plugins: put them into the Clusterfile of its cluster")
	}
	name, err := a.clusterOf(s.Name, spec.Merge(layers...).Cluster.Name, c.kubeconfig)
	if err != nil {
		return fmt.Errorf("image %s: %w", f.Cluster.Image, err)
	}
	if name == "" {
		return a.deployForeign(ctx, st, f, c)
	}
	if c.app.registry != "" {
		return usagef("--registry is for a cluster that sealer has not made: the images go to the registry of cluster %s", name)
	}
	known, err := cluster.Known(a.clusterState(), name)
	if err != nil {
		return err
	}
	known = spec.Merge(&spec.File{Cluster: spec.Cluster{SSH: layers[0].Cluster.SSH}}, known, spec.Defaults(""))
	f.Cluster.Name, f.Cluster.SSH = name, spec.SSH{}
	o := a.clusterOptions(st, c, a.clusterProgress())
	o.Add = f
	return a.applied(ctx, o, known, c)
}

// clusterOf names the cluster, of those that this machine has made, that an
// application goes onto: the one that was asked for, the one that the kubeconfig
// file leads to, or the only one. It is "" when the kubeconfig file leads to a
// cluster that sealer has not made.
func (a *app) clusterOf(flag, file, kubeconfig string) (string, error) {
	all, err := cluster.Clusters(a.clusterState())
	if err != nil {
		return "", err
	}
	name := flag
	if name == "" {
		name = file
	}
	switch {
	case name != "":
		if _, err := cluster.Known(a.clusterState(), name); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w, and this machine has made no cluster %s", cluster.ErrApplication, name)
			return "", advise(err, "Name a cluster that stands with --cluster-name, or by its --kubeconfig FILE; or build the image FROM a base image")
		}
		return name, nil
	case kubeconfig != "":
		return a.clusterAt(all, kubeconfig)
	case len(all) == 1:
		return all[0], nil
	case len(all) > 1:
		return "", usagef("there are several clusters: name one with --cluster-name: %s", strings.Join(all, ", "))
	}
	return "", advise(cluster.ErrApplication, "Build it FROM a base image and run that; or name a cluster that stands by its --kubeconfig FILE")
}

// clusterAt is the cluster of this machine whose API server and authority a
// kubeconfig file names; "" for none.
func (a *app) clusterAt(all []string, file string) (string, error) {
	want, err := kube.ReadConfig(file)
	if err != nil {
		return "", err
	}
	for _, name := range all {
		c, err := kube.ReadConfig(filepath.Join(a.clusterState(), name, "kubeconfig"))
		if err == nil && c.Server == want.Server && string(c.CA) == string(want.CA) {
			return name, nil
		}
	}
	return "", nil
}

// deployForeign brings an application to a cluster that sealer has not made: its
// images to a registry, then its start commands.
func (a *app) deployForeign(ctx context.Context, st *store.Store, f *spec.File, c *engineFlags) error {
	file, err := filepath.Abs(c.kubeconfig)
	if err != nil {
		return err
	}
	config, err := kube.ReadConfig(file)
	if err != nil {
		return err
	}
	target := cluster.Target{Kubeconfig: file, Server: config.Server, Registry: c.app.registry}
	held, err := transfer.Held(ctx, st, f.Cluster.Image, nil)
	if err != nil {
		return notFound(err)
	}
	if len(held.Images) > 0 && target.Registry == "" {
		return usagef("the cluster of %s is not one that sealer has made: name the registry that it pulls from with --registry HOST[/PREFIX]; the %s inside go there", file, counted(len(held.Images), "image", "images"))
	}
	o := a.clusterOptions(st, c, a.clusterProgress())
	if len(held.Images) > 0 {
		if target.Push, err = a.pushTo(st, f.Cluster.Image, target.Registry, &c.app.registryFlags); err != nil {
			return err
		}
	}
	r, err := cluster.Deploy(ctx, o, f, target)
	if r != nil && c.dryRun && err == nil {
		return a.printPlan(r.Plan, c)
	}
	if err != nil && r != nil && r.Ran+r.Failed > 0 {
		return advise(err, "The same command goes on where it stopped")
	}
	if err != nil {
		return err
	}
	if r.Ran == 0 {
		printf(a.Out, "The start commands of %s have run on %s already.\n", f.Cluster.Image, config.Server)
	} else {
		printf(a.Out, "Application %s is on %s: %d steps done.\n", f.Cluster.Image, config.Server, r.Ran)
	}
	if len(held.Images) > 0 && target.Registry != held.Name {
		printf(a.Err, "Its images are at %s. Where nothing sends the cluster's pulls there yet: sealer redirect %s %s | kubectl apply --server-side -f - (docs/redirect.md)\n",
			target.Registry, f.Cluster.Image, redirectTo(target.Registry, held))
	}
	if c.noProof {
		return nil
	}
	return a.provedForeign(ctx, o, f, target, r)
}

// redirectTo are the flags of sealer redirect for images that were pushed to a
// registry, HOST or HOST/PREFIX.
func redirectTo(registry string, held transfer.Holding) string {
	host, prefix, _ := strings.Cut(registry, "/")
	flags := "--registry " + host
	if prefix == "" {
		return flags
	}
	var sources []string
	for _, i := range held.Images {
		sources = append(sources, i.Reference.Registry)
	}
	slices.Sort(sources)
	for _, s := range slices.Compact(sources) {
		at := prefix
		if held.Naming == tree.NamingFull {
			at += "/" + s
		}
		flags += " --prefix " + s + "=" + at
	}
	return flags
}

// pushTo returns a function that copies the container images inside an image to
// a registry.
func (a *app) pushTo(st *store.Store, image, to string, r *registryFlags) (func(context.Context) error, error) {
	prefix, err := mirror.ParsePrefix(to)
	if err != nil {
		return nil, usageError{err}
	}
	client, err := a.client(r)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return a.pushMirrored(ctx, st, client, image, nil, prefix, a.Err) }, nil
}

// provedForeign prints which containers of the cluster come from the
// application. The others are its owner's.
func (a *app) provedForeign(ctx context.Context, o cluster.Options, f *spec.File, t cluster.Target, r *cluster.Report) error {
	patience := proofPatience
	if r.Ran == 0 {
		patience = 0
	}
	p, err := cluster.ProveApplication(ctx, o, f, t, patience)
	if err != nil {
		err = fmt.Errorf("proof: the start commands have run, but the cluster could not be compared with image %s: %w", f.Cluster.Image, err)
		return incompleteError{advise(err, "Make the proof where the API server answers: sealer check --proof --image "+f.Cluster.Image+"; --no-proof leaves it out")}
	}
	printf(a.Out, "proof: %s come from %s; %s of the cluster from elsewhere\n",
		counted(len(p.Containers), "container", "containers"), f.Cluster.Image, counted(len(p.Strangers), "reference or container", "references or containers"))
	for _, w := range p.Waiting {
		printf(a.Out, "not started yet: %s, container %s: %s is inside\n", w.Where, w.Name, w.Reference)
	}
	return nil
}
