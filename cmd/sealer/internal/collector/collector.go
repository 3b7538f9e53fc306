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
	// scanGrowth is how much garbage a larger heap may add, in percent of the bytes
	// that a collection reads. Buffers, which hold no pointers, cost a collection
	// nothing, and so allow no garbage.
	scanGrowth = 50
	// leastGrowth, in percent of the live heap, keeps collections apart.
	leastGrowth = 10
)

// The one init function of this program: in main it would be too late.
func init() { debug.SetGCPercent(quietHeap / leastHeap * 100) }

// Tune keeps a large heap near its live size from now on. A ballast, a large
// allocation that is never touched, would make the collector wait alone, and the
// runtime touches it at times.
func Tune() {
	afterCollections(func() {
		now := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(now)
		debug.SetGCPercent(growth(now[0].Value.Uint64(), now[1].Value.Uint64()))
	})
}

// growth returns the percent of a live heap that garbage may add to it; scanned of
// its bytes may hold pointers.
func growth(live, scanned uint64) int {
	if live == 0 {
		return scanGrowth
	}
	garbage := min(scanned, live) * scanGrowth / 100
	if live < quietHeap {
		garbage = max(garbage, quietHeap-live)
	}
	return int(max(leastGrowth, min(garbage*100/live, quietHeap/leastHeap*100)))
}

// afterCollections calls do after each garbage collection.
func afterCollections(do func()) {
	runtime.AddCleanup(&[16]byte{}, func(struct{}) { // not tiny: tiny objects share their memory
		do()
		afterCollections(do)
	}, struct{}{})
}
