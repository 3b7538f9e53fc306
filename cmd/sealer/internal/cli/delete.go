package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/cluster/spec"
	"github.com/clusterimage/sealer/store"
)

func (a *app) delete() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "delete --all | -m ADDRESSES -n ADDRESSES",
		Short: "Take machines out of a cluster, or the whole cluster away",
		Long: `Put back all that sealer has changed on machines, by their journals: services,
files, kernel parameters, lines in /etc/hosts, packet filters. With --all the
cluster ends; else the machines leave it, after their pods, and those that stay
forget their addresses.

What cannot be put back is told, and stays in the machine's journal: the same
command tries again.

A machine that does not answer keeps the command. With --force it leaves as it is:
the cluster forgets it, its member of etcd, too, and nothing is put back there.
Name it again once it answers, to put it back.

` + exitCodesHelp,
		Example: `  sealer delete --all
  sealer delete -c my-cluster -n 10.0.0.5`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (s.Masters+s.Nodes != "") {
				return usagef("delete needs either --all, or machines with --masters and --nodes")
			}
			return a.deleteMachines(cmd.Context(), &s, &c)
		},
	}
	s.flags(cmd)
	c.flags(cmd, "plugins that fail keep no machine, and machines that do not answer leave as they are")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "all machines: the cluster ends")
	c.output.flags(cmd, "text")
	return cmd
}

func (a *app) deleteMachines(ctx context.Context, s *clusterFlags, c *engineFlags) error {
	goners, err := spec.ParseAddresses(s.Masters, s.Nodes)
	if err != nil {
		return usageError{err}
	}
	var addresses []netip.Addr
	for _, g := range goners {
		addresses = append(addresses, g.Addr())
	}
	f, err := a.known(s)
	if err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(filepath.Join(a.clusterState(), f.Cluster.Name, "kubeconfig"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.withStore(func(st *store.Store) error {
		r, err := cluster.Delete(ctx, a.clusterOptions(st, c, a.clusterProgress()), f, addresses)
		if err != nil {
			if errors.Is(err, cluster.ErrAway) {
				printf(a.Out, "%d machines are as they were before.\n", r.Ran)
				return incompleteError{advise(err, "The same command goes on once the others answer; where they never will, remove the directory "+filepath.Join(a.clusterState(), f.Cluster.Name))}
			}
			if errors.Is(err, cluster.ErrPartly) {
				printf(a.Out, "%d machines are as they were before.\n", r.Ran)
				return incompleteError{advise(err, "The machines that stay still know those that left: sealer apply -f Clusterfile with the machines that stay mends that")}
			}
			if r != nil && r.Ran+r.Failed > 0 {
				return advise(err, "The same command tries again")
			}
			return err
		}
		if c.dryRun {
			return a.printPlan(r.Plan, c)
		}
		if len(addresses) == 0 {
			if err := forgetKubeconfig(kubeconfig); err != nil {
				return err
			}
		}
		printf(a.Out, "%d machines are as they were before.\n", r.Ran)
		for _, address := range r.Lost {
			printf(a.Out, "%s did not answer and has left as it is. When it is back: sealer delete -c %s -n %s\n", address, f.Cluster.Name, address)
		}
		return nil
	})
}

// known is the Clusterfile of the cluster that the flags name: of --Clusterfile,
// else the one that was kept when the cluster was made. Words about SSH in the
// flags win.
func (a *app) known(s *clusterFlags) (*spec.File, error) {
	name := s.Name
	if name == "" && s.file == "" {
		all, err := cluster.Clusters(a.clusterState())
		if err != nil {
			return nil, err
		}
		switch len(all) {
		case 0:
			return nil, advise(errors.New("this machine has made no cluster"), "Name its machines with a Clusterfile: sealer delete --all -f Clusterfile")
		case 1:
			name = all[0]
		default:
			return nil, usagef("there are several clusters: name one with --cluster-name: %s", strings.Join(all, ", "))
		}
	}
	top := *s
	top.Masters, top.Nodes, top.Name = "", "", name
	layers, err := top.layers(a)
	if err != nil {
		return nil, err
	}
	if s.file == "" {
		kept, err := cluster.Known(a.clusterState(), name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, advise(fmt.Errorf("this machine has made no cluster %s", name), "Name its machines with a Clusterfile: sealer delete --all -f Clusterfile")
		}
		if err != nil {
			return nil, err
		}
		layers = append(layers, kept)
	}
	f := spec.Merge(append(layers, spec.Defaults(""))...)
	return f, spec.Validate(f)
}

// forgetKubeconfig removes ~/.kube/config when it is that of the cluster that is
// gone.
func forgetKubeconfig(gone []byte) error {
	home, err := os.UserHomeDir()
	if err != nil || gone == nil {
		return nil //nolint:nilerr // then nothing was written there
	}
	file := filepath.Join(home, ".kube", "config")
	if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, gone) {
		return nil //nolint:nilerr // it is another's
	}
	if err := os.Remove(file); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(file)) // stays when something else is there
	return nil
}
