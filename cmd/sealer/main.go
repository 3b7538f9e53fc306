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
	"runtime/debug"
	"runtime/metrics"
	"syscall"

	"github.com/clusterimage/sealer/build/sandbox"
	"github.com/clusterimage/sealer/cmd/sealer/internal/cli"
	"github.com/clusterimage/sealer/rootfs"
)

func main() { os.Exit(run()) }

const (
	// quietHeap is the heap, in bytes, up to which no garbage is collected: most
	// commands end before they have made that much.
	quietHeap = 8 << 20
	// leastGrowth is the part of the live heap, in percent, that garbage may add to
	// it where the heap is larger.
	leastGrowth = 50
)

// tuneCollector makes the garbage collector wait until the heap has quietHeap
// bytes, and keeps a large heap near its live size. A ballast, a large allocation
// that is never touched, would do the first alone, and the runtime touches it at
// times.
func tuneCollector() {
	const leastHeap = 4 << 20 // the runtime's, at 100 percent
	debug.SetGCPercent(quietHeap / leastHeap * 100)
	afterCollections(func() {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		debug.SetGCPercent(growth(live[0].Value.Uint64()))
	})
}

// growth returns the percent of a live heap that garbage may add to it.
func growth(live uint64) int {
	if live == 0 || live >= quietHeap {
		return leastGrowth
	}
	return int(max(leastGrowth, min((quietHeap-live)*100/live, quietHeap/(4<<20)*100)))
}

// afterCollections calls do after each garbage collection.
func afterCollections(do func()) {
	runtime.AddCleanup(&[16]byte{}, func(struct{}) { // not tiny: tiny objects share their memory
		do()
		afterCollections(do)
	}, struct{}{})
}

func run() int {
	if len(os.Args) > 1 && os.Args[1] == sandbox.ChildArgument {
		return sandbox.Child()
	}
	if len(os.Args) > 1 && os.Args[1] == rootfs.CommandArgument {
		return rootfs.CommandChild()
	}
	tuneCollector()
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
