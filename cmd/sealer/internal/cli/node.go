package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/clusterimage/sealer/cluster/facts"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/wire"
)

// node is the far end of the apply engine. People do not run it.
func (a *app) node() *cobra.Command {
	var machine string
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "Work on this machine for a sealer that speaks on stdin and stdout",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(cmd *cobra.Command, _ []string) error { return a.serveNode(cmd.Context(), machine) },
	}
	cmd.Flags().StringVar(&machine, "machine", "/", "the `directory` that is the machine's root")
	cmd.AddCommand(a.nodeSupervise(), a.nodeBalance(), a.nodeStart())
	return cmd
}

// drainTime is how long calls have to end when their session has ended.
const drainTime = 10 * time.Second

func (a *app) serveNode(ctx context.Context, machine string) (err error) {
	s := node.NewServer(node.ServerOptions{Root: machine, Store: a.root})
	ops := s.Ops()
	maps.Copy(ops, facts.Ops(strings.TrimSuffix(machine, "/")))
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	conn, err := wire.New(ctx, a.In, a.raw.Out, nil, wire.Options{Ops: ops, Hello: wire.Hello{
		Version: Version, OS: runtime.GOOS, Arch: runtime.GOARCH, Hostname: host, UID: os.Getuid(), PID: os.Getpid(),
	}})
	if err != nil {
		return err
	}
	leave := s.Guard(node.Guest{Dir: conn.Peer().Dir, Made: conn.Peer().Made})
	defer func() { err = errors.Join(err, leave()) }()
	<-conn.Done()
	if !conn.Drain(drainTime) {
		return fmt.Errorf("node: work goes on %v after its session has ended", drainTime)
	}
	return nil
}

func (a *app) nodeSupervise() *cobra.Command {
	var dir, machine string
	cmd := &cobra.Command{
		Use:   "supervise UNIT",
		Short: "Keep the program of a unit running, where there is no systemd",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return node.Supervisor{Dir: dir, Root: machine}.Supervise(cmd.Context(), args[0])
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "the `directory` for the process number")
	cmd.Flags().StringVar(&machine, "machine", "/", "the `directory` that is the machine's root")
	return cmd
}

func (a *app) nodeBalance() *cobra.Command {
	b := &node.Balancer{}
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Hand connections to the masters whose API server is ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.Logger = a.logger()
			return b.Serve(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&b.Listen, "listen", "127.0.0.1:6443", "`address` to listen on")
	cmd.Flags().StringVar(&b.File, "file", "", "the `file` with the masters, host:port a line")
	return cmd
}

func (a *app) nodeStart() *cobra.Command {
	var machine string
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Start the services of the clusters on this machine, where there is no systemd to do it at boot",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return node.StartUnits(cmd.Context(), machine, func(unit string) { printf(a.Out, "%s runs\n", unit) })
		},
	}
	cmd.Flags().StringVar(&machine, "machine", "/", "the `directory` that is the machine's root")
	return cmd
}
