package collector

import "testing"

// A heap grows to 8 MB before it is collected, and a large one by half.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: 50, 1 << 20: 200, 2 << 20: 200, 4 << 20: 100, 6 << 20: 50, 8 << 20: 50, 1 << 30: 50, quietHeap - 1: 50,
	} {
		if got := growth(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d", live, got, want)
		}
	}
}
