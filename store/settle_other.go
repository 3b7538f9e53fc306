//go:build !linux

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// settleTree flushes every file below a directory.
func settleTree(path string) error {
	return filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.OpenFile(p, os.O_RDWR, 0) // Windows flushes no file that is open for reading alone
		if errors.Is(err, fs.ErrPermission) {
			return nil // read-only: its turn comes with the system's own write-back
		}
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}
