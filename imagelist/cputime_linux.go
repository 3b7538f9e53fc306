package imagelist

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns a clock of the processor time that the calling thread has
// used. Any thread may read the clock; the caller stays on its own
// (runtime.LockOSThread). The clock's ID is made as glibc's
// pthread_getcpuclockid makes it: the complement of the thread's ID, a bit for
// one thread, and 2 for scheduled time.
func threadTime() func() time.Duration {
	clock := ^int32(unix.Gettid())<<3 | 4 | 2
	return func() time.Duration {
		var t unix.Timespec
		if unix.ClockGettime(clock, &t) != nil {
			return 0 // the thread has ended, and so has the work on it
		}
		return time.Duration(t.Nano())
	}
}
