package registry

import (
	"errors"
	"io"
	"os"
)

// dir is the registry tree of one layer. No path leads out of it, whatever
// symbolic links it holds.
type dir struct {
	root *os.Root
	self *os.File // the same directory, for system calls
}

// newDir takes over root.
func newDir(root *os.Root) (*dir, error) {
	self, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	return &dir{root, self}, nil
}

func (d *dir) close() error { return errors.Join(d.self.Close(), d.root.Close()) }

func (d *dir) open(path string) (io.ReadSeekCloser, error) {
	f, err := d.file(path)
	if err != nil {
		return nil, err // and no interface of a nil *os.File
	}
	return f, nil
}

func (d *dir) names(path string) ([]string, error) {
	f, err := d.file(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// walkOpen opens path through os.Root, which opens every directory on the way: a
// dozen system calls for a path of a registry tree.
func (d *dir) walkOpen(path string) (*os.File, error) { return d.root.Open(path) }

// walkStat describes path through os.Root.
func (d *dir) walkStat(path string) (fileInfo, error) {
	info, err := d.root.Stat(path)
	if err != nil {
		return fileInfo{}, err
	}
	return fileInfo{size: info.Size(), modified: info.ModTime(), dir: info.IsDir()}, nil
}
