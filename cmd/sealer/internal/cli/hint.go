package cli

import (
	"errors"
	"io/fs"
	"syscall"
)

// hint returns what to do about an error that the libraries return without
// knowing the command line, or "".
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "The disk is full: free space, or drop what no image needs with: sealer prune"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "Choose a store that you may write with --root DIR or SEALER_ROOT=DIR"
	}
	return ""
}
