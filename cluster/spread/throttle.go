package spread

import (
	"context"
	"io"

	"golang.org/x/time/rate"
)

// A Throttle bounds what all of its readers give together. nil bounds nothing.
// It is safe for concurrent use.
type Throttle struct{ limiter *rate.Limiter }

// burst is how many bytes may pass at once.
const burst = 64 << 10

// NewThrottle makes a Throttle of so many bytes a second; 0 is no bound.
func NewThrottle(bytes int64) *Throttle {
	if bytes <= 0 {
		return nil
	}
	return &Throttle{rate.NewLimiter(rate.Limit(bytes), burst)}
}

// Reader gives what r has, at the Throttle's pace.
func (t *Throttle) Reader(ctx context.Context, r io.Reader) io.Reader {
	if t == nil {
		return r
	}
	return &throttled{ctx, r, t.limiter}
}

type throttled struct {
	ctx     context.Context
	r       io.Reader
	limiter *rate.Limiter
}

func (t *throttled) Read(p []byte) (int, error) {
	n, err := t.r.Read(p[:min(len(p), burst)])
	if werr := t.limiter.WaitN(t.ctx, n); werr != nil {
		return n, werr
	}
	return n, err
}

// seeker is a file that is read at the pace of a Throttle.
type seeker struct {
	io.Reader
	io.Seeker
}
