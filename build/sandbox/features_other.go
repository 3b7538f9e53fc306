//go:build !linux

package sandbox

import (
	"context"
	"runtime"
)

// Detect reports that this is not Linux.
func Detect(context.Context, string) Features {
	no := "no: this is " + runtime.GOOS
	return Features{Overlayfs: no, UserNamespaces: no, MappedIDs: no, Seccomp: no, RunLacks: []string{"RUN needs Linux, this is " + runtime.GOOS}}
}
