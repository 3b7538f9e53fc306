package archive

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// WriteFile makes a file with the permissions perm appear once write has written
// all of it and the disk has it: until then a file of that name stays as it was.
// An existing pipe or device is written to instead of replaced, and a link is
// followed.
func WriteFile(name string, perm fs.FileMode, write func(io.Writer) error) (err error) {
	f, err := create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.discard()) }()
	if err := write(f.File); err != nil {
		return err
	}
	if err := f.settle(perm); err != nil {
		return err
	}
	return f.publish()
}

// A pending file has its name once it is published.
type pending struct {
	*os.File
	name   string
	direct bool // a pipe or a device, which is written to as it is
	closed bool
	done   bool
}

// create begins the file name. The caller calls discard, also after publish.
func create(name string) (*pending, error) {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return nil, fmt.Errorf("write %s: it is a directory", name)
	} else if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		return &pending{File: f, name: name, direct: true}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	return &pending{File: f, name: name}, nil
}

// settle ends the writing: the disk has the content, before an old file is gone.
func (p *pending) settle(perm fs.FileMode) error {
	p.closed = true
	var err error
	if !p.direct {
		err = errors.Join(p.Chmod(perm), p.Sync())
	}
	if err = errors.Join(err, p.Close()); err != nil {
		return fmt.Errorf("write %s: %w", p.name, err)
	}
	return nil
}

// publish gives a settled file its name.
func (p *pending) publish() error {
	if p.done = true; p.direct {
		return nil
	}
	if err := os.Rename(p.File.Name(), p.name); err != nil {
		p.done = false
		return fmt.Errorf("write %s: %w", p.name, err)
	}
	return syncParent(p.name)
}

// discard removes a file that was not published.
func (p *pending) discard() error {
	if p.done {
		return nil
	}
	p.done = true
	if !p.closed {
		_ = p.Close()
	}
	if p.direct {
		return nil
	}
	return os.Remove(p.File.Name())
}

// syncParent flushes the name of a file. Windows, whose file systems keep names in
// a journal, flushes no directory.
func syncParent(name string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return nil // it may be written to, and not read
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("write %s: flush its directory: %w", name, err)
	}
	return nil
}
