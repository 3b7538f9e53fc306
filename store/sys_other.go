//go:build !linux

package store

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
)

func tryFlock(f *os.File, _ bool) (bool, error) {
	return false, fmt.Errorf("lock %s: %w: the store needs Linux", f.Name(), errors.ErrUnsupported)
}

func syncFS(f *os.File) error { return f.Sync() }

func spread(string) {}

func bootID() string { return "" }

// InUserNamespace is false: only Linux has them.
func InUserNamespace() bool { return false }

func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

func diskErrors() []error { return nil }

func makeNode(_ *os.Root, name string, _ *tar.Header) error {
	return fmt.Errorf("make node %s: %w", name, errors.ErrUnsupported)
}

func setAttributes(*os.File, map[string]string) error { return nil }

const nonBlocking = 0

func owned(fs.FileInfo, int, int) bool { return false }

func link(*os.File, *os.Root, string) error { return errors.ErrUnsupported }

func makeWhiteout(string) error { return errors.ErrUnsupported }

func setOpaque(string, bool) error { return errors.ErrUnsupported }

func copyAttributes(_, _ string) error { return errors.ErrUnsupported }

func mountOverlay([]string, string, bool) error { return errors.ErrUnsupported }

func unmount(string) error { return errors.ErrUnsupported }

func mounted(string) (bool, error) { return false, nil }
