// Command sealer builds, inspects, pushes, pulls and serves ClusterImages. A
// ClusterImage is one artifact with everything that a Kubernetes cluster needs
// where there is no internet.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/cmd/sealer/internal/cli"
	"github.com/clusterimage/sealer/cmd/sealer/internal/collector"
	"github.com/clusterimage/sealer/rootfs"
)

func main() { os.Exit(run()) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == sandbox.ChildArgument {
		return sandbox.Child()
	}
	if len(os.Args) > 1 && os.Args[1] == rootfs.CommandArgument {
		return rootfs.CommandChild()
	}
	collector.Tune()
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// The first signal restores the default handling, so that a second one ends a
	// program that does not stop.
	context.AfterFunc(ctx, stop)
	// Helm's engine logs missing values to the standard logger. Discovery reports
	// those that matter for the images.
	log.SetOutput(io.Discard)
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
