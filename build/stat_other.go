//go:build !linux

package build

import (
	"io/fs"
	"os"
)

// identify does nothing. Without the time of the last change, which nobody can set
// back, the hash of a file is not kept for the next build.
func (s *fileStat) identify(fs.FileInfo) bool { return false }

func list(root *os.Root, dir string) ([]listed, error) {
	entries, err := readDir(root, dir)
	if err != nil {
		return nil, err
	}
	out := make([]listed, len(entries))
	for i, d := range entries {
		out[i].name = d.Name()
		fi, err := d.Info()
		if err != nil {
			out[i].err = err
			continue
		}
		out[i].stat = statOf(fi)
	}
	return out, nil
}
