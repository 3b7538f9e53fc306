package remote

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// answerStalls is how many times Options.Stall a registry may take to answer when
// it has all bytes of an upload: it reads a large blob once more, or copies it to
// an object store.
const answerStalls = 15

// watchUpload ends a request with ErrStalled when less than MinRate of its body is
// read over the time stall, or when the answer takes longer than answerStalls
// times that. The place in the file is asked for instead of counting in a reader,
// because a wrapped file would not go by sendfile. It returns when ctx ends.
func watchUpload(ctx context.Context, body *os.File, size int64, stall time.Duration, cancel context.CancelCauseFunc) {
	begin, _ := body.Seek(0, io.SeekCurrent) // of a body that is sent, and closed, each further call fails, too
	least := int64(stall.Seconds() * MinRate)
	tick := time.NewTicker(stall)
	defer tick.Stop()
	for last, waited := begin, 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		at, err := body.Seek(0, io.SeekCurrent)
		switch {
		case err != nil || at-begin >= size: // net/http closes a body that it has sent
			if waited++; waited >= answerStalls {
				cancel(fmt.Errorf("the registry does not answer: %w (%s)", ErrStalled, answerStalls*stall))
				return
			}
		case at-last < least:
			cancel(fmt.Errorf("the registry does not read: %w (%s)", ErrStalled, stall))
			return
		default:
			last = at
		}
	}
}
