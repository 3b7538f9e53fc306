// Package collector tunes the garbage collector for a program that mostly ends
// soon. To import it makes the collector wait, before the packages of others, later
// in the order of import paths, are initialized: they allocate 3 MB, for which a
// collection would cost a quarter of the processor time of a short command.
package collector

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// quietHeap is the heap, in bytes, up to which no garbage is collected: most
	// commands end before they have made that much.
	quietHeap = 8 << 20
	// leastHeap is the runtime's own quietHeap, at 100 percent.
	leastHeap = 4 << 20
	// leastGrowth is the part of the live heap, in percent, that garbage may add to
	// it where the heap is larger.
	leastGrowth = 50
)

// The one init function of this program: in main it would be too late.
func init() { debug.SetGCPercent(quietHeap / leastHeap * 100) }

// Tune keeps a large heap near its live size from now on. A ballast, a large
// allocation that is never touched, would make the collector wait alone, and the
// runtime touches it at times.
func Tune() {
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
	return int(max(leastGrowth, min((quietHeap-live)*100/live, quietHeap/leastHeap*100)))
}

// afterCollections calls do after each garbage collection.
func afterCollections(do func()) {
	runtime.AddCleanup(&[16]byte{}, func(struct{}) { // not tiny: tiny objects share their memory
		do()
		afterCollections(do)
	}, struct{}{})
}
