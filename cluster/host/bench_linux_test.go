package host_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
)

// cpu returns what this process has used of the processors: both sides.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// machines starts n machines, which are the benchmark's and not measured.
func machines(b *testing.B, n int) (targets []host.Target) {
	b.Helper()
	for range n {
		targets = append(targets, (&hosttest.Machine{Password: secret, Programs: programs()}).Start(b).Target())
	}
	return targets
}

// BenchmarkThousandHosts connects to 1,000 servers in this process, with new
// host keys and passwords, and runs a command on each.
func BenchmarkThousandHosts(b *testing.B) {
	const n = 1000
	targets := machines(b, n)
	begin := cpu(b)
	for b.Loop() {
		d := dialer(b, host.Options{AcceptNew: true})
		hosts, errs := d.ConnectAll(b.Context(), targets)
		if err := errors.Join(errs...); err != nil {
			b.Fatal(err)
		}
		done := make(chan error)
		for _, h := range hosts {
			go func() { done <- h.Run(b.Context(), host.Command{Args: []string{"true"}}) }()
		}
		for range hosts {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		for _, h := range hosts {
			h.Close()
		}
	}
	b.ReportMetric(float64((cpu(b)-begin).Microseconds())/1000/float64(b.N)/n, "cpu-ms/host")
}

// BenchmarkCommand runs commands one after the other over one connection.
func BenchmarkCommand(b *testing.B) {
	h := connect(b, dialer(b, host.Options{AcceptNew: true}), machines(b, 1)[0])
	begin := cpu(b)
	for b.Loop() {
		if err := h.Run(b.Context(), host.Command{Args: []string{"true"}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((cpu(b)-begin).Microseconds())/float64(b.N), "cpu-µs/op")
}
