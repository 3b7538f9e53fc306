//go:build unix

package figure

import (
	"syscall"
	"time"
)

// ProcessorTime returns the time that this process has used of the processors, user and
// system; 0 where the system does not tell. It is getrusage(2).
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
