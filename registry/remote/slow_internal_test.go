package remote

import (
	"math"
	"testing"
	"time"
)

// TestAnswerTime: a small upload is waited for two stall timeouts, a large one as
// long as the registry may need to read it, and none for more than fifteen.
func TestAnswerTime(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		size        int64
		stall, want time.Duration
	}{
		{0, time.Minute, 2 * time.Minute},
		{1 << 10, time.Minute, 2 * time.Minute},
		{1 << 30, time.Minute, 2*time.Minute + 128*time.Second},
		{6 << 30, time.Minute, 2*time.Minute + 768*time.Second},
		{7 << 30, time.Minute, 15 * time.Minute},
		{1 << 30, time.Second, 15 * time.Second},
		{16 << 20, 200 * time.Millisecond, 2*time.Second + 400*time.Millisecond},
		{1 << 10, 10 * time.Millisecond, 20 * time.Millisecond},
		{100 << 30, time.Hour, 2*time.Hour + 12800*time.Second},
		{math.MaxInt64, time.Minute, 15 * time.Minute},
	} {
		if got := answerTime(tc.size, tc.stall); got != tc.want {
			t.Errorf("%d bytes, a stall timeout of %s: %s, want %s", tc.size, tc.stall, got, tc.want)
		}
	}
}
