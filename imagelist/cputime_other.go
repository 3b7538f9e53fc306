//go:build !linux

package imagelist

import "time"

// threadTime returns a clock that takes all time for processor time, which a
// thread of this system cannot be asked for.
func threadTime() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}
