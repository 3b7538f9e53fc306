package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/cluster"
	"github.com/clusterimage/sealer/store"
)

// certSoon is how long before its end a certificate makes "cert list" exit with
// 3.
const certSoon = 30 * 24 * time.Hour

func (a *app) cert() *cobra.Command {
	cmd := &cobra.Command{Use: "cert", Short: "List and renew the certificates of a cluster", Args: cobra.NoArgs}
	cmd.AddCommand(a.certList(), a.certRenew())
	return cmd
}

func (a *app) certList() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	cmd := &cobra.Command{
		Use:   "list [-c NAME]",
		Short: "List the certificates on all machines of a cluster, and when they end",
		Long: `List the certificates on all machines of a cluster: kubeadm's, the clients' in its
kubeconfig files, the kubelets', the registries', and the authorities; when each ends,
and who renews it. The exit code is 3 when one has ended or ends within 30 days.

` + exitCodesHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.output.check(); err != nil {
				return err
			}
			return a.listCerts(cmd.Context(), &s, &c)
		},
	}
	s.flags(cmd)
	c.reachFlags.flags(cmd)
	c.machineFlag(cmd)
	c.output.flags(cmd, "text")
	return cmd
}

func (a *app) listCerts(ctx context.Context, s *clusterFlags, c *engineFlags) error {
	f, err := a.known(s)
	if err != nil {
		return err
	}
	return a.withStore(func(st *store.Store) error {
		certs, err := cluster.Certs(ctx, a.clusterOptions(st, c, a.clusterProgress()), f)
		if len(certs) == 0 && err != nil {
			return err
		}
		now, soon := time.Now(), 0
		perr := c.output.print(a.Out, certs, func(w io.Writer) error {
			var rows [][]string
			for _, cert := range certs {
				days := int(cert.Until.Sub(now).Hours()) / 24
				rows = append(rows, []string{cert.Host, cert.Path, cert.Subject, cert.Until.Format(time.DateOnly), strconv.Itoa(days), cert.By})
			}
			return table(w, []string{"MACHINE", "CERTIFICATE", "OF", "ENDS", "DAYS", "RENEWED BY"}, rows)
		})
		for _, cert := range certs {
			if cert.Until.Sub(now) < certSoon {
				soon++
			}
		}
		if soon > 0 {
			err = errors.Join(err, advise(incompleteError{fmt.Errorf("%s within 30 days, or has ended", counted(soon, "certificate ends", "certificates end"))}, "Renew them with: sealer cert renew"))
		}
		return errors.Join(perr, err)
	})
}

func (a *app) certRenew() *cobra.Command {
	var s clusterFlags
	var c engineFlags
	cmd := &cobra.Command{
		Use:   "renew [-c NAME]",
		Short: "Renew the certificates of a cluster",
		Long: `Renew the certificates of a cluster: on one master after the other those of kubeadm
(kubeadm certs renew all), after which etcd, API server, controller manager and
scheduler start anew and are waited for; and the registries', which take new ones up by
themselves. With several masters the API stays reachable. The kubeconfig of this
machine is fetched again. Kubelets renew their own. Authorities stay: kubeadm's are
good for ten years, and so is the registries'.

` + exitCodesHelp,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.output.check(); err != nil {
				return err
			}
			return a.renewCerts(cmd.Context(), &s, &c)
		},
	}
	s.flags(cmd)
	c.reachFlags.flags(cmd)
	c.machineFlag(cmd)
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask before the first change")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the plan and change nothing")
	cmd.Flags().StringVar(&c.kubeconfig, "kubeconfig", "", "write the kubeconfig to this `file`")
	c.output.flags(cmd, "text")
	return cmd
}

func (a *app) renewCerts(ctx context.Context, s *clusterFlags, c *engineFlags) error {
	f, err := a.known(s)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(filepath.Join(a.clusterState(), f.Cluster.Name, "kubeconfig"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return a.withStore(func(st *store.Store) error {
		r, err := cluster.RenewCerts(ctx, a.clusterOptions(st, c, a.clusterProgress()), f)
		if err != nil {
			return advise(err, "The same command tries again; what is renewed works")
		}
		if c.dryRun {
			return a.printPlan(r.Plan, c)
		}
		if err := replaceKubeconfig(old, r.Kubeconfig, c.kubeconfig); err != nil {
			return err
		}
		printf(a.Out, "The certificates of %s are renewed: %d steps done.\n", f.Cluster.Name, r.Ran)
		return nil
	})
}

// replaceKubeconfig writes the cluster's new kubeconfig to the file that was
// asked for, or over ~/.kube/config when that is the old one.
func replaceKubeconfig(old, content []byte, to string) error {
	if to == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil //nolint:nilerr // it is kept all the same
		}
		to = filepath.Join(home, ".kube", "config")
		if have, err := os.ReadFile(to); err != nil || !bytes.Equal(have, old) {
			return nil //nolint:nilerr // it is another's
		}
	}
	return archive.WriteFile(to, 0o600, func(w io.Writer) error { _, err := w.Write(content); return err })
}
