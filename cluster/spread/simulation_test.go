package spread

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clusterimage/sealer/perf/figure"
)

// TestSimulation brings 1 GB to many machines in virtual time. The engine and
// every machine send 1 Gbit/s, which their transfers at that moment share;
// nothing else takes time, and the Tracker decides who sends to whom. The time that
// it takes grows with the logarithm of the number of machines, and the engine
// sends no more copies to many than to few. With FIGURES set the figures
// are kept: make bench-all.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 100, 300, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { simulateSpread(t, n) })
		})
	}
}

func simulateSpread(t *testing.T, n int) {
	const one = 8 * time.Second // 1 GB at 1 Gbit/s
	var tracker Tracker
	var mu sync.Mutex
	var lead int
	sending := map[string]int{}
	begin := time.Now()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			x, err := tracker.Next(t.Context(), "sha256:a", fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if x.From == "" {
				lead++
			}
			sending[x.From]++
			mu.Unlock()
			transfer(&mu, sending, x.From, one)
			mu.Lock()
			sending[x.From]--
			mu.Unlock()
			x.Done(true)
		})
	}
	all.Wait()
	took := time.Since(begin)
	// Two transfers of one sender take twice as long, and triple the holders.
	rounds := math.Ceil(math.Log(float64(n))/math.Log(3)) + 1
	if most := time.Duration(2*rounds) * one; took > most || lead > copies {
		t.Errorf("%d machines: %s, at most %s is good; the engine sent %d copies", n, took, most, lead)
	}
	for _, f := range []figure.Figure{
		{Name: "spread/until all have it", Value: took.Seconds(), Unit: "s"},
		{Name: "spread/sent by the engine", Value: float64(lead), Unit: "copies", Goal: new(3.0)},
	} {
		f.X, f.XUnit, f.Note = float64(n), "machines", "simulation"
		if err := figure.Add(f); err != nil {
			t.Error(err)
		}
	}
}

// transfer sleeps until a blob that alone takes the time one has come, in steps
// in which the sender's link is shared evenly.
func transfer(mu *sync.Mutex, sending map[string]int, from string, one time.Duration) {
	const steps = 20
	for range steps {
		mu.Lock()
		share := max(sending[from], 1)
		mu.Unlock()
		time.Sleep(one / steps * time.Duration(share))
	}
}
