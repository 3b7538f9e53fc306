package facts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/plan"
)

// askKernel adds the facts that no file holds.
func (m *machine) askKernel(ctx context.Context, o Options) {
	if err := m.addresses(); err != nil {
		m.unknown("addresses", err)
	}
	var err error
	if m.facts.TimeSync, err = timeSync(); err != nil {
		m.unknown("timeSync", err)
	}
	for i := range m.facts.Mounts {
		at := &m.facts.Mounts[i]
		if err := space(m.nearest(at.Path), at); err != nil {
			m.unknown("mounts", err)
		}
	}
	if !o.Fsync {
		return
	}
	if m.facts.Fsync, err = fsync(ctx, m.nearest("/var/lib/etcd")); err != nil {
		m.unknown("fsync", err)
	}
}

func (m *machine) addresses() error {
	devices, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, dev := range devices {
		if dev.Flags&net.FlagLoopback != 0 {
			continue
		}
		addrs, err := dev.Addrs()
		if err != nil {
			return fmt.Errorf("%s: %w", dev.Name, err)
		}
		for _, a := range addrs {
			m.facts.Addresses = append(m.facts.Addresses, plan.Address{
				Interface: dev.Name, CIDR: a.String(), MAC: dev.HardwareAddr.String(), MTU: dev.MTU,
			})
		}
	}
	slices.SortFunc(m.facts.Addresses, func(a, b plan.Address) int {
		return strings.Compare(a.Interface+" "+a.CIDR, b.Interface+" "+b.CIDR)
	})
	return nil
}

// fsync measures as etcd writes: 100 records of 2 KiB, each flushed. It returns
// the 99th longest of the 100 durations; one disk hiccup is no slow disk.
func fsync(ctx context.Context, dir string) (p99 time.Duration, err error) {
	f, err := os.CreateTemp(dir, ".sealer-fsync-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	record, took := make([]byte, 2<<10), make([]time.Duration, 100)
	for i := range took {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		begin := time.Now()
		if _, err := f.Write(record); err != nil {
			return 0, err
		}
		if err := datasync(f); err != nil {
			return 0, err
		}
		took[i] = time.Since(begin)
	}
	slices.Sort(took)
	return took[98], nil
}
