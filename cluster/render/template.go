package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// Suffix marks a file as a template; the rendered file lies beside it without
// the suffix.
const Suffix = ".tmpl"

// maxFile is the largest file, in bytes, that is read or made.
const maxFile = 16 << 20

// TemplateDirs are the directories of a rootfs where files with Suffix are
// templates. Elsewhere they are files of an application like any other.
func TemplateDirs() []string { return []string{"etc", "charts", "manifests", "scripts"} }

// A Fault is a template or a Config that could not become a file.
type Fault struct {
	Path string // in the rootfs
	Line int    // from 1; 0 when the fault has no line
	Err  error
}

// Error returns "PATH:LINE: cause".
func (f *Fault) Error() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %v", f.Path, f.Err)
	}
	return fmt.Sprintf("%s:%d: %v", f.Path, f.Line, f.Err)
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// A MissingError is a value that a template asks for and the environment lacks.
type MissingError struct{ Key string }

// Error says how to give the value.
func (e *MissingError) Error() string {
	return fmt.Sprintf("no value for .%s: write %s=VALUE in env of the Clusterfile, or pass -e %s=VALUE", e.Key, e.Key, e.Key)
}

// Template renders one text. name stands in faults, which are *Fault, joined
// in order of the lines. A key that the environment lacks is a fault where its
// value would be used; a condition on it is false, and default takes effect.
func Template(name string, text []byte, env Env) ([]byte, error) {
	t, err := template.New(name).Funcs(functions()).Parse(string(text))
	if err != nil {
		return nil, templateFault(name, err)
	}
	r := &required{name: name, text: string(text)}
	t.Funcs(template.FuncMap{needFunc: r.need})
	for _, each := range t.Templates() {
		if each.Tree != nil {
			r.list(each.Root)
		}
	}
	out := &limited{max: maxFile}
	if err := t.Execute(out, map[string]any(env)); err != nil {
		r.faults = append(r.faults, templateFault(name, err))
	}
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// limited refuses to grow beyond max bytes.
type limited struct {
	bytes.Buffer
	max int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.max {
		return 0, fmt.Errorf("renders to more than %d bytes", l.max)
	}
	return l.Buffer.Write(p)
}

// templateLine finds name and line in the errors of text/template.
var templateLine = regexp.MustCompile(`^template: .*?:(\d+)(?::\d+)?: (?:executing ".*?" at )?`)

func templateFault(name string, err error) error {
	f := &Fault{Path: name, Err: err}
	if m := templateLine.FindStringSubmatch(err.Error()); m != nil {
		f.Line, _ = strconv.Atoi(m[1])
		f.Err = errors.New(err.Error()[len(m[0]):])
	}
	return f
}

// Templates renders every template below TemplateDirs and returns the paths
// written, sorted. Nothing is written when one of them has a fault; all faults
// are *Fault, joined.
func Templates(root *os.Root, env Env) ([]string, error) {
	var errs []error
	made := map[string]file{}
	for _, dir := range TemplateDirs() {
		err := fs.WalkDir(root.FS(), dir, func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && p == dir {
				return fs.SkipDir
			}
			if err != nil || !d.Type().IsRegular() || path.Ext(p) != Suffix || d.Name() == Suffix {
				return err
			}
			text, err := read(root, p)
			if err != nil {
				errs = append(errs, &Fault{Path: p, Err: err})
				return nil
			}
			out, err := Template(p, text.data, env)
			if err != nil {
				errs = append(errs, err)
			}
			made[strings.TrimSuffix(p, Suffix)] = file{out, text.mode}
			return nil
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("look for templates in %s: %w", dir, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return writeAll(root, made)
}

// A file is content and permissions.
type file struct {
	data []byte
	mode fs.FileMode
}

func read(root *os.Root, p string) (file, error) {
	info, err := root.Stat(p)
	switch {
	case err != nil:
		return file{}, err
	case !info.Mode().IsRegular():
		return file{}, errors.New("is not a regular file")
	case info.Size() > maxFile:
		return file{}, fmt.Errorf("larger than %d bytes", maxFile)
	}
	data, err := root.ReadFile(p)
	return file{data, info.Mode().Perm()}, err
}

// writeAll writes files in order of their paths.
func writeAll(root *os.Root, files map[string]file) ([]string, error) {
	var paths []string
	for p := range files {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for i, p := range paths {
		if err := write(root, p, files[p]); err != nil {
			return paths[:i], fmt.Errorf("write %s: %w", p, err)
		}
	}
	return paths, nil
}

// write replaces p. A reader sees the old file or the new one.
func write(root *os.Root, p string, f file) (err error) {
	if err := root.MkdirAll(path.Dir(p), 0o755); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(p), ".sealer-"+path.Base(p))
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(root.Remove(tmp)))
		}
	}()
	if err := ignoreMissing(root.Remove(tmp)); err != nil {
		return err
	}
	w, err := root.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
	if err != nil {
		return err
	}
	_, err = w.Write(f.data)
	if err := errors.Join(err, w.Chmod(f.mode), w.Close()); err != nil {
		return err
	}
	return root.Rename(tmp, p)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
