package remote

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

const (
	// leastAnswer and mostAnswer are how many times Options.Stall a registry may take
	// to answer when it has all bytes of an upload.
	leastAnswer, mostAnswer = 2, 15
	// answerRate, in bytes a second, is how fast a registry reads an upload once more,
	// or copies it to an object store, before it answers.
	answerRate = 8 << 20
)

// answerTime is how long a registry may take to answer an upload of size bytes.
func answerTime(size int64, stall time.Duration) time.Duration {
	longest := mostAnswer * stall
	work := size / answerRate // seconds
	if work > int64(longest/time.Second) {
		return longest // as a time.Duration it could be too large
	}
	return min(leastAnswer*stall+time.Duration(work)*time.Second, longest)
}

// unanswered is the end of an upload of size bytes that was sent wait ago.
func unanswered(size int64, wait time.Duration) error {
	return stallError{after: wait, since: fmt.Sprintf(" after all %d bytes were sent", size), at: "the registry does not answer: ", final: true}
}

// longPause is the wait before another attempt from which on it is said.
const longPause = 10 * time.Second

// stallError is the end of a transfer of which less than MinRate went over the
// time after. It wraps ErrStalled.
type stallError struct {
	at     string // "" or the side that stalls, with a colon
	after  time.Duration
	since  string // "" or the beginning of after, with a space
	gained bool   // before that the transfer was fast enough
	final  bool   // so long that another attempt is not worth its wait
}

// Error implements error.
func (e stallError) Error() string {
	return fmt.Sprintf("%s%v (%s%s)", e.at, ErrStalled, e.after, e.since)
}

// Unwrap returns ErrStalled.
func (e stallError) Unwrap() error { return ErrStalled }

// watchUpload ends a request with ErrStalled when less than MinRate of its body is
// read over the time stall, or when the answer takes longer than answerTime. The place in the file is asked for instead of counting in a reader,
// because a wrapped file would not go by sendfile. It returns when ctx ends.
func watchUpload(ctx context.Context, body *os.File, size int64, stall time.Duration, cancel context.CancelCauseFunc) {
	begin, _ := body.Seek(0, io.SeekCurrent) // of a body that is sent, and closed, each further call fails, too
	least := int64(stall.Seconds() * MinRate)
	tick := time.NewTicker(stall)
	defer tick.Stop()
	for last, sent := begin, false; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at, err := body.Seek(0, io.SeekCurrent)
		switch {
		case err != nil || at-begin >= size: // net/http closes a body that it has sent
			wait := answerTime(begin+size, stall)
			if sent {
				cancel(unanswered(size, wait))
				return
			}
			sent = true
			tick.Reset(wait)
		case at-last < least:
			cancel(stallError{after: stall, at: "the registry does not read: ", gained: last > begin})
			return
		default:
			last = at
		}
	}
}

// watch watches the sending of req's body until the function that it returns is
// called.
func (c *Client) watch(ctx context.Context, req *http.Request, cancel context.CancelCauseFunc) (sent func()) {
	if c.o.Stall < 0 {
		return func() {}
	}
	if f, ok := req.Body.(*os.File); ok {
		ctx, stop := context.WithCancel(ctx)
		go watchUpload(ctx, f, req.ContentLength, c.o.Stall, cancel)
		return stop
	}
	wait := answerTime(req.ContentLength, c.o.Stall)
	t := time.AfterFunc(wait, func() { cancel(unanswered(req.ContentLength, wait)) })
	return func() { t.Stop() }
}

// watched is a response body. It ends the transfer when too few bytes arrive, and
// gives the slot back when it is closed.
type watched struct {
	body    io.ReadCloser
	length  int64 // of the header; -1 when unknown
	timer   *time.Timer
	stall   time.Duration
	least   int         // bytes that must arrive within stall
	arrived int         // of them, since timer was set
	gained  atomic.Bool // MinRate was reached at least once
	release func()
	cause   func(error) error
}

// newWatched returns a body that is given the time stall for each further MinRate
// times stall.
func newWatched(stall time.Duration) *watched {
	if stall < 0 {
		return &watched{stall: math.MaxInt64}
	}
	return &watched{stall: stall, least: int(stall.Seconds() * MinRate)}
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.body.Read(p)
	if w.arrived += n; n > 0 && w.arrived >= w.least {
		w.arrived = 0
		w.gained.Store(true)
		w.timer.Reset(w.stall)
	}
	if err != nil && err != io.EOF {
		err = w.cause(err)
	}
	return n, err
}

// Close reads a short remainder, so that the connection can be used again.
func (w *watched) Close() error {
	if w.length >= 0 && w.length <= 8<<10 {
		_, _ = io.Copy(io.Discard, w.body) // only to keep the connection usable
	}
	w.timer.Stop()
	err := w.body.Close()
	w.release()
	return err
}
