package collector

import "testing"

// A heap grows to 8 MB before it is collected, and a larger one by half of what a
// collection reads.
func TestGrowth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live, scanned uint64
		want          int
	}{
		{0, 0, 50},
		{1 << 20, 0, 200},
		{2 << 20, 2 << 20, 200},
		{4 << 20, 1 << 20, 100},
		{6 << 20, 6 << 20, 50},
		{8 << 20, 8 << 20, 50},
		{1 << 30, 1 << 30, 50},
		{1 << 30, 1 << 31, 50},
		{100 << 20, 50 << 20, 25},
		{100 << 20, 0, 10},
	} {
		if got := growth(c.live, c.scanned); got != c.want {
			t.Errorf("%d bytes, %d of them scanned: %d %%, want %d", c.live, c.scanned, got, c.want)
		}
	}
}
