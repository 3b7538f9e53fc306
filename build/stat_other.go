//go:build !linux

package build

import (
	"os"
	"syscall"
)

// changeTime is not asked for where RUN and the store do not work anyway.
func changeTime(*syscall.Stat_t) int64 { return 0 }

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
