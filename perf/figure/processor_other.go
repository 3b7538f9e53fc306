//go:build !unix

package figure

import "time"

// ProcessorTime returns the time that this process has used of the processors, user and
// system; 0 where the system does not tell, as here.
func ProcessorTime() time.Duration { return 0 }
