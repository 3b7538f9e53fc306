package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/store"
)

func (a *app) diagnose() *cobra.Command {
	cmd := &cobra.Command{Use: "debug", Short: "Find a fault in a cluster", Args: cobra.NoArgs}
	cmd.AddCommand(a.debugBundle())
	return cmd
}

func (a *app) debugBundle() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	var to string
	cmd := &cobra.Command{
		Use:   "bundle [-c NAME]",
		Short: "Pack what helps to find a fault into one file, without secrets",
		Long: `Pack into a .tar.gz: the Clusterfile, the last plan and proof; of each machine its
facts, its journal, the last lines of its services and of the pods of kube-system,
its configuration; the cluster's nodes, pods and events. Nothing is changed.

Keys, passwords, tokens and environments of containers are left out: known values
wherever they stand, and what stands where secrets usually do. Look into the file
all the same before you hand it on.

A machine that does not answer is named in missing.txt, and the exit code is 3.

` + exitCodesHelp,
		Example: `  sealer debug bundle
  sealer debug bundle -c my-cluster -o - | tar -tzf -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.writeBundle(cmd.Context(), &s, &c, to) },
	}
	s.flags(cmd)
	c.reachFlags.flags(cmd)
	c.machineFlag(cmd)
	cmd.Flags().StringVarP(&to, "output", "o", "", "the `file`; - is stdout (default sealer-bundle-NAME-TIME.tar.gz here)")
	return cmd
}

func (a *app) writeBundle(ctx context.Context, s *clusterFlags, c *engineFlags, to string) error {
	f, err := a.known(s)
	if err != nil {
		return err
	}
	if to == "" {
		to = fmt.Sprintf("sealer-bundle-%s-%s.tar.gz", f.Cluster.Name, time.Now().UTC().Format("20060102T150405Z"))
	}
	return a.withStore(func(st *store.Store) error {
		var r cluster.BundleReport
		o := a.clusterOptions(st, c, a.clusterProgress())
		write := func(w io.Writer) error {
			var err error
			r, err = cluster.Bundle(ctx, o, f, w)
			return err
		}
		if to == "-" {
			err = write(a.Out)
		} else {
			err = archive.WriteFile(to, 0o600, write)
		}
		if err != nil {
			return err
		}
		printf(a.Err, "%s: %s\n", to, counted(r.Files, "file", "files"))
		if len(r.Missing) > 0 {
			return advise(incompleteError{errors.New("not in the bundle: " + strings.Join(r.Missing, "; "))}, "What could be had is in "+to)
		}
		return nil
	})
}
