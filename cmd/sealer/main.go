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
	"runtime"
	"syscall"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/cmd/sealer/internal/cli"
)

func main() { os.Exit(run()) }

// ballast returns a heap ballast: memory that is never touched, and so never
// taken from the machine, but counted by the garbage collector when it decides
// when to run. Most commands end before they have made that much garbage.
// debug.SetGCPercent would not do: it also lets large heaps grow too far.
func ballast() []byte { return make([]byte, 32<<20) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == sandbox.ChildArgument {
		return sandbox.Child()
	}
	defer runtime.KeepAlive(ballast())
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
