package facts

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/cluster/plan"
)

// timeSync asks the kernel whether something keeps its clock right (adjtimex).
func timeSync() (string, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return "", fmt.Errorf("adjtimex: %w", err)
	}
	if state == unix.TIME_ERROR {
		return "unsynchronised", nil
	}
	return "synchronised", nil
}

// space adds the free space and inodes at path. A file system that makes inodes
// as they are needed counts none.
func space(path string, at *plan.Mount) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return fmt.Errorf("statfs %s: %w", path, err)
	}
	at.Bytes, at.TotalBytes = int64(s.Bavail)*s.Bsize, int64(s.Blocks)*s.Bsize
	if s.Files > 0 {
		at.Inodes = int64(s.Ffree)
	}
	return nil
}

func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
