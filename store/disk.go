package store

import (
	"errors"
	"os"
	"path/filepath"
)

// A Disk is the file system that a store lies on.
type Disk struct {
	Type    string `json:"type,omitempty"`       // ext4, xfs, …; "" where it is not known
	Mounted string `json:"mountPoint,omitempty"` // where it is mounted
	Options string `json:"options,omitempty"`    // of the mount and of the file system
	Free    int64  `json:"freeBytes"`            // for this user
	// Risks say why an image that was reported as done may be lost, or may not be
	// possible there, each as a sentence; none is known for a sound disk.
	Risks []string `json:"risks"`
}

// DiskOf describes the file system of the store in root, or of the directory where
// it would be made.
func DiskOf(root string) (Disk, error) {
	dir, err := filepath.Abs(root)
	if err != nil {
		return Disk{}, err
	}
	for {
		_, err := os.Stat(dir)
		if err == nil || !errors.Is(err, os.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return Disk{}, err
	}
	d := Disk{Risks: []string{}}
	if d.Free, err = freeSpace(dir); err != nil {
		return Disk{}, err
	}
	return d, d.describe(dir)
}
