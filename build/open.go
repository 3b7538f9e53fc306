package build

import (
	"errors"
	"os"
	"syscall"
)

// openRegular opens a file for reading and does not wait when it became a fifo
// since the build looked at it.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
