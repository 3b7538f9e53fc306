//go:build !linux

package rootfs

import "context"

func mayMount() bool { return false }

// RunCommand fails: only Linux has overlayfs.
func RunCommand(context.Context, Command) (int, error) { return 0, Supported() }

// CommandChild is never called.
func CommandChild() int { return 1 }
