package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

func (a *app) join() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	cmd := &cobra.Command{
		Use:     "join -m ADDRESSES -n ADDRESSES",
		Aliases: []string{"scale-up"},
		Short:   "Add machines to a cluster",
		Long: `Add machines to a cluster that this machine has made, or that -f describes, and
remember them. The image must be in the store. Masters join one after the other,
workers side by side; the machines that are there only learn the new masters.

` + exitCodesHelp,
		Example: `  sealer join -n 10.0.0.6
  sealer join -c my-cluster -m 10.0.0.2,10.0.0.3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.output.check(); err != nil {
				return err
			}
			if s.Masters+s.Nodes == "" {
				return usagef("join needs machines: --masters or --nodes")
			}
			return a.joinMachines(cmd.Context(), &s, &c)
		},
	}
	c.makes(cmd, &s, "")
	return cmd
}

func (a *app) joinMachines(ctx context.Context, s *clusterFlags, c *engineFlags) error {
	// The login of the flags is that of the machines that join; the others keep
	// theirs. A password is for all: none is kept, and a key stays beside it.
	others := *s
	others.User, others.Port, others.Pk, others.pkPasswd = "", 0, "", ""
	f, err := a.known(&others)
	if err != nil {
		return err
	}
	if err := a.keepKey(s, f); err != nil {
		return err
	}
	login := clusterFlags{pkPasswd: s.pkPasswd}
	login.Masters, login.Nodes = s.Masters, s.Nodes
	layers, err := login.layers(a)
	if err != nil {
		return err
	}
	given := layers[0].Cluster.SSH
	own := spec.SSH{User: s.User, Port: s.Port, Passwd: f.Cluster.SSH.Passwd, Pk: s.Pk, PkPasswd: given.PkPasswd}
	if own.Pk == "" {
		own.Pk, own.PkPasswd = f.Cluster.SSH.Pk, f.Cluster.SSH.PkPasswd
	}
	if err := addHosts(f, layers[0].Cluster.Hosts, own); err != nil {
		return err
	}
	if err := spec.Validate(f); err != nil {
		return err
	}
	return a.withStore(func(st *store.Store) error {
		return a.applied(ctx, a.clusterOptions(st, c, a.clusterProgress()), f, c)
	})
}

// keepKey puts the key of the cluster's login back, which a password of the flags
// or of the environment has taken the place of.
func (a *app) keepKey(s *clusterFlags, f *spec.File) error {
	if f.Cluster.SSH.Pk != "" {
		return nil
	}
	kept, err := cluster.Known(a.clusterState(), f.Cluster.Name)
	if s.file != "" {
		kept, err = readClusterfile(s.file)
	}
	if err != nil {
		return err
	}
	f.Cluster.SSH.Pk, f.Cluster.SSH.PkPasswd = kept.Cluster.SSH.Pk, kept.Cluster.SSH.PkPasswd
	return nil
}

// addHosts adds the machines that f lacks, with a login of their own. A machine
// that f has stays: a join that broke off is given again. Its role stays, too.
func addHosts(f *spec.File, hosts []spec.Host, login spec.SSH) error {
	there, err := f.Cluster.Nodes()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range hosts {
		addresses, err := spec.ParseAddresses(h.IPs...)
		if err != nil {
			return err
		}
		h.IPs, h.SSH = nil, login
		for _, a := range addresses {
			i := slices.IndexFunc(there, func(n spec.Node) bool { return n.Address == a.Addr() })
			switch {
			case i < 0 && a.Port() == 0:
				h.IPs = append(h.IPs, a.Addr().String())
			case i < 0:
				h.IPs = append(h.IPs, a.String())
			case there[i].Master() != slices.Contains(h.Roles, spec.RoleMaster):
				errs = append(errs, fmt.Errorf("%s is in cluster %s already, with the other role: take it out by sealer delete first", a.Addr(), f.Cluster.Name))
			}
		}
		if len(h.IPs) > 0 {
			f.Cluster.Hosts = append(f.Cluster.Hosts, h)
		}
	}
	return errors.Join(errs...)
}
