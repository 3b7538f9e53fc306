package cli

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/fleet"
	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/spec"
)

// reachFlags say how machines are reached, beside the Clusterfile.
type reachFlags struct {
	knownHosts []string
	acceptNew  bool
	parallel   int
}

func (r *reachFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&r.knownHosts, "known-hosts", nil, "`files` of known host keys; new ones are added to the first (default ~/.ssh/known_hosts)")
	f.BoolVar(&r.acceptNew, "accept-new-host-keys", false, "trust machines whose host key is not known yet; a changed key is refused in any case")
	f.IntVar(&r.parallel, "parallel", fleet.DefaultParallel, "how many machines to work on at once")
}

// options are those of package host.
func (r *reachFlags) options(a *app) host.Options {
	o := host.Options{
		KnownHosts: r.knownHosts, AcceptNew: r.acceptNew, Agent: os.Getenv("SSH_AUTH_SOCK"), Parallel: r.parallel, Log: a.logger(),
	}
	if a.interactive() {
		o.Ask = a.askHostKeys
	}
	return o
}

// askHostKeys asks once for all keys.
func (a *app) askHostKeys(_ context.Context, keys []host.UnknownKey) error {
	printLine(a.Err, "These host keys are not known. Compare them with what the hosts say: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
	for _, k := range keys {
		printf(a.Err, "  %s  %s  %s\n", k.Address, k.Type, k.Fingerprint)
	}
	return a.ask("Trust them all? [y/N] ")
}

// reach connects to the machines of the Clusterfile, or those that keep leaves.
func (a *app) reach(ctx context.Context, f *spec.File, r *reachFlags, keep func([]spec.Node) ([]spec.Node, error)) (*fleet.Fleet, error) {
	nodes, err := f.Cluster.Nodes()
	if err == nil && keep != nil {
		nodes, err = keep(nodes)
	}
	if err != nil {
		return nil, err
	}
	return fleet.Reach(ctx, nodes, r.options(a), spec.Sources{}, nil)
}

// reachHint is the advice about machines that could not be reached, or "" for
// another error.
func reachHint(err error) string {
	var unknown *host.UnknownKeyError
	var changed *host.ChangedKeyError
	var auth *host.AuthError
	var noRoot *host.NoRootError
	var unreachable *host.UnreachableError
	switch {
	case errors.As(err, &changed):
		return "Nothing was changed"
	case errors.As(err, &unknown):
		return "Compare the fingerprints with what the hosts say, then run again with --accept-new-host-keys"
	case errors.As(err, &auth):
		return "Check the user and the key or the password: --user, --pk, --passwd -"
	case errors.As(err, &noRoot):
		return "Connect as root, or let the user become root in /etc/sudoers"
	case errors.As(err, &unreachable):
		return "Nothing was changed. Check that the machines run and that sshd answers there; sealer delete -n ADDRESS --force takes one that is gone out of its cluster"
	}
	return ""
}

// standingFile is wantedFile, but without -f and machines that of the cluster
// that this machine has made, when there is one.
func (a *app) standingFile(o *clusterFlags) (*spec.File, error) {
	if o.file == "" && o.Masters+o.Nodes == "" {
		all, err := cluster.Clusters(a.clusterState())
		if err != nil {
			return nil, err
		}
		if o.Name != "" || len(all) > 0 {
			return a.known(o)
		}
	}
	return a.wantedFile(o)
}

// wantedFile returns the Clusterfile that the flags and -f make; without hosts,
// this machine is the only one.
func (a *app) wantedFile(o *clusterFlags) (*spec.File, error) {
	layers, err := o.layers(a)
	if err != nil {
		return nil, err
	}
	local, err := fleet.LocalAddress()
	if err != nil {
		return nil, err
	}
	f := spec.Merge(append(layers, spec.Defaults(local))...)
	a.warnSpec(f)
	// Machines can be looked at before there is an image for them.
	return f, spec.Validate(spec.Merge(f, &spec.File{Cluster: spec.Cluster{Image: "none"}}))
}
