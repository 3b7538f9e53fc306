//go:build !linux

package layer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// InUserNamespace is false: only Linux has user namespaces.
func InUserNamespace() bool { return false }

func diskErrors() []error { return nil }

func makeNode(_ *os.Root, name string, _ *tar.Header) error {
	return fmt.Errorf("make node %s: %w", name, errors.ErrUnsupported)
}

const nonBlocking = 0

func owned(fs.FileInfo, int, int) bool { return false }

func link(*os.File, *os.Root, string) error { return errors.ErrUnsupported }

// A fileID tells files with several names apart.
type fileID struct{}

func linked(fs.FileInfo) (fileID, bool) { return fileID{}, false }
