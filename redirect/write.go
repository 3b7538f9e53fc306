package redirect

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// ErrOccupied is wrapped by Write when the directory holds other files.
var ErrOccupied = errors.New("directory is not empty")

// A Written is the outcome for one of Write's files.
type Written struct {
	Path  string
	State string // "new", "replaced", or "unchanged" for a file with the same bytes
}

// Write puts files into dir and creates dir if it is missing. A file with the
// same content is left alone, so a second run changes nothing. Anything else in
// dir fails the call before anything is written; the error lists it and wraps
// ErrOccupied. With force, files of the same name are replaced and others stay.
func Write(dir string, files []File, force bool) (written []Written, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	states, others, err := compare(root, files)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	if len(others) > 0 && !force {
		return nil, fmt.Errorf("write %s: %w: %s", dir, ErrOccupied, abridged(others))
	}
	for i, f := range files {
		if states[i] != "unchanged" {
			if err := writeFile(root, f); err != nil {
				return written, fmt.Errorf("write %s: %w", dir, err)
			}
		}
		written = append(written, Written{f.Path, states[i]})
	}
	return written, nil
}

// abridged joins the first names and counts the rest.
func abridged(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// compare returns the State that writing each file has, and lists the other
// entries of root and the files that differ. A directory without any of files is
// listed once, not entry by entry.
func compare(root *os.Root, files []File) (states, others []string, err error) {
	states = make([]string, len(files))
	for i := range states {
		states[i] = "new"
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name == "." || slices.ContainsFunc(files, func(f File) bool { return strings.HasPrefix(f.Path, name+"/") }) {
				return nil
			}
			if inside, err := fs.ReadDir(root.FS(), name); err != nil || len(inside) > 0 {
				others = append(others, name+"/")
			}
			return fs.SkipDir
		}
		i := slices.IndexFunc(files, func(f File) bool { return f.Path == name })
		if i < 0 {
			others = append(others, name)
			return nil
		}
		if states[i] = "replaced"; e.Type().IsRegular() {
			b, err := root.ReadFile(name)
			if err != nil {
				return err
			}
			if bytes.Equal(b, files[i].Content) {
				states[i] = "unchanged"
			}
		}
		if states[i] == "replaced" {
			others = append(others, name+" (changed)")
		}
		return nil
	})
	return states, others, err
}

// writeFile writes under a temporary name and renames, so that an interrupted
// run leaves the old file or the whole new one.
func writeFile(root *os.Root, f File) (err error) {
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	temporary := f.Path + ".new"
	defer func() {
		if err != nil {
			_ = root.Remove(temporary)
		}
	}()
	if err := root.WriteFile(temporary, f.Content, mode); err != nil {
		return err
	}
	return root.Rename(temporary, f.Path)
}
