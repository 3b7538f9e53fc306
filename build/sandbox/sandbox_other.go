//go:build !linux

package sandbox

import (
	"context"
	"fmt"
	"runtime"
)

// A Sandbox needs Linux.
type Sandbox struct{}

// Start reports that a sandbox needs Linux.
func Start(context.Context, Options) (*Sandbox, error) {
	return nil, fmt.Errorf("RUN needs Linux, this is %s", runtime.GOOS)
}

// Child does nothing.
func Child() int { return 1 }

// UserXattr is false.
func (*Sandbox) UserXattr() bool { return false }

// Lacks is empty.
func (*Sandbox) Lacks() []string { return nil }

// Run does nothing.
func (*Sandbox) Run(Command) error { return nil }

// Close does nothing.
func (*Sandbox) Close() {}
