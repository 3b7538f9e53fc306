//go:build !linux

package rootfs

import (
	"errors"
	"fmt"
	"runtime"
)

// Supported returns the error of Mount where there is no overlayfs. It wraps
// errors.ErrUnsupported.
func Supported() error {
	return fmt.Errorf("%w: only Linux has overlayfs, this is %s: mount the image on a Linux machine", errors.ErrUnsupported, runtime.GOOS)
}

// Mount fails.
func (o Overlay) Mount(string) error { return Supported() }

// Unmount fails: nothing can be mounted.
func Unmount(string) error { return Supported() }

// Mounted is false: nothing can be mounted.
func Mounted(string) (bool, error) { return false, nil }
