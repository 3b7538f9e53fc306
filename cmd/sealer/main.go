// Command sealer builds, inspects, pushes, pulls and serves ClusterImages:
// one artifact with all that a Kubernetes cluster needs where there is no
// internet.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/clusterimage/sealer/build"
	"github.com/clusterimage/sealer/cmd/sealer/internal/cli"
)

func main() { os.Exit(run()) }

// ballast returns memory that is never touched, and so never taken from the
// machine, but counts when the collector is to run next: most commands are done
// before they have made that much garbage.
func ballast() []byte { return make([]byte, 32<<20) }

func run() int {
	if len(os.Args) > 1 && os.Args[1] == build.RunCommand {
		return build.RunChild()
	}
	defer runtime.KeepAlive(ballast())
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	// After the first signal the default handling is back, so that a second
	// one ends a program that does not stop.
	context.AfterFunc(ctx, stop)
	// Helm's engine notes missing values on the standard logger; what they
	// mean for the images, discovery reports.
	log.SetOutput(io.Discard)
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
}
