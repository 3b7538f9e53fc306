package session_test

import (
	"context"
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/wire"
)

// BenchmarkThousandSessions is the engine's own part of a run on 1,000 hosts
// that have sealer: connect over SSH, begin a session, make ten calls on each.
// The servers are in this process: the processor time is that of both sides.
func BenchmarkThousandSessions(b *testing.B) {
	const n, calls = 1000, 10
	var targets []host.Target
	for range n {
		m := &hosttest.Machine{Password: "p", Default: node}
		targets = append(targets, m.Start(b).Target())
	}
	own := program("amd64", "own")
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	var heap runtime.MemStats
	for b.Loop() {
		d, err := host.NewDialer(host.Options{Home: b.TempDir(), AcceptNew: true})
		if err != nil {
			b.Fatal(err)
		}
		hosts, errs := d.ConnectAll(b.Context(), targets)
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
		done := make(chan error)
		for _, h := range hosts {
			go func() { done <- use(b.Context(), h, own, calls) }()
		}
		for range hosts {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		runtime.ReadMemStats(&heap)
		for _, h := range hosts {
			h.Close()
		}
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	used := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(used.Microseconds())/1000/float64(b.N)/n, "cpu-ms/host")
	b.ReportMetric(float64(heap.HeapInuse)/1e6, "heap-MB")
}

func use(ctx context.Context, h *host.SSH, own *session.Program, calls int) error {
	c, err := session.Open(ctx, h, session.Options{Own: own})
	if err != nil {
		return err
	}
	for range calls {
		var name string
		if err := c.Call(ctx, "name", nil, &name, wire.Streams{}); err != nil {
			return err
		}
	}
	return nil // the session stays: a run has all of them at once
}
