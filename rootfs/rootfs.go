package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/clusterimage/sealer/layer"
)

// An FS is the merged file tree of a chain of layers, read-only. It
// implements fs.FS, fs.ReadDirFS, fs.StatFS and fs.ReadLinkFS and is safe for
// concurrent use. Symbolic links are followed inside the merged tree, never
// out of it: "/" is its root. The registry trees of registry layers are part
// of it, below "registry".
type FS struct {
	layers []*os.Root // highest first

	mu   sync.Mutex
	dirs map[string][]int // by path: the layers that make up a directory, highest first
}

// maxLinks is how many symbolic links a path may pass, as in Linux.
const maxLinks = 40

// Open opens the merged tree of the layers in dirs, lowest first. The caller
// closes it. The error wraps fs.ErrNotExist when a directory is missing.
func Open(dirs []string) (_ *FS, err error) {
	r := &FS{dirs: map[string][]int{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	var all []int
	for i, dir := range slices.Backward(dirs) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, fmt.Errorf("open rootfs: %w", err)
		}
		r.layers = append(r.layers, root)
		all = append(all, len(dirs)-1-i)
	}
	r.dirs["."] = all
	return r, nil
}

// Close frees the directories.
func (r *FS) Close() error {
	var errs []error
	for _, l := range r.layers {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// A place is where a name of the merged tree stands.
type place struct {
	path  string // in the merged tree and in each layer, no symbolic link before its last element
	layer int    // of the entry that counts
	info  fs.FileInfo
}

// find returns the entry name of the directory dir, which the layers in make
// up.
func (r *FS) find(dir string, in []int, name string) (place, bool) {
	p := path.Join(dir, name)
	for _, l := range in {
		if fi, err := r.layers[l].Lstat(p); err == nil {
			return place{p, l, fi}, true
		}
		if _, err := r.layers[l].Lstat(path.Join(dir, layer.WhiteoutPrefix+name)); err == nil {
			break
		}
	}
	return place{}, false
}

// parts returns the layers that make up the directory p, highest first. parent
// are those of its parent.
func (r *FS) parts(p string, parent []int) []int {
	r.mu.Lock()
	parts, known := r.dirs[p]
	r.mu.Unlock()
	if known {
		return parts
	}
	dir, name := path.Split(p)
	for _, l := range parent {
		fi, err := r.layers[l].Lstat(p)
		if err == nil {
			if !fi.IsDir() {
				break // a file of a lower layer that the directory replaced
			}
			parts = append(parts, l)
			if _, err := r.layers[l].Lstat(path.Join(p, layer.OpaqueName)); err == nil {
				break
			}
		}
		if _, err := r.layers[l].Lstat(path.Join(dir, layer.WhiteoutPrefix+name)); err == nil {
			break
		}
	}
	r.mu.Lock()
	r.dirs[p] = parts
	r.mu.Unlock()
	return parts
}

// walk resolves name; follow tells whether a symbolic link in the last place
// is followed.
func (r *FS) walk(name string, follow bool) (place, []int, error) {
	rest := strings.Split(path.Clean(name), "/")
	at, parts := ".", r.known(".")
	chain := [][]int{parts} // of at and its parents
	last := place{path: "."}
	for links := 0; len(rest) > 0; {
		elem := rest[0]
		rest = rest[1:]
		switch elem {
		case "", ".":
			continue
		case "..":
			if len(chain) > 1 {
				chain = chain[:len(chain)-1]
				at, parts = path.Dir(at), chain[len(chain)-1]
			}
			last = place{path: at}
			continue
		}
		if parts == nil {
			return place{}, nil, fs.ErrNotExist // the element before is a file
		}
		if known := r.known(path.Join(at, elem)); len(rest) > 0 && known != nil {
			at, parts = path.Join(at, elem), known
			chain = append(chain, parts)
			last = place{path: at}
			continue
		}
		p, ok := r.find(at, parts, elem)
		if !ok || strings.HasPrefix(elem, layer.WhiteoutPrefix) {
			return place{}, nil, fs.ErrNotExist
		}
		last = p
		switch {
		case p.info.Mode()&fs.ModeSymlink != 0 && (follow || len(rest) > 0):
			if links++; links > maxLinks {
				return place{}, nil, errors.New("too many symbolic links")
			}
			target, err := r.layers[p.layer].Readlink(p.path)
			if err != nil {
				return place{}, nil, err
			}
			if path.IsAbs(target) {
				at, chain = ".", chain[:1]
				parts = chain[0]
			}
			last = place{path: at}
			rest = append(strings.Split(target, "/"), rest...)
		case p.info.IsDir():
			at, parts = p.path, r.parts(p.path, parts)
			chain = append(chain, parts)
		default:
			parts = nil
		}
	}
	if last.info == nil {
		return r.revisited(at, parts)
	}
	return last, parts, nil
}

// revisited returns the place of a directory that a walk came back to, by ".." or a
// link, and so did not look up.
func (r *FS) revisited(at string, parts []int) (place, []int, error) {
	if len(parts) == 0 {
		return place{path: "."}, nil, nil // no layers at all
	}
	fi, err := r.layers[parts[0]].Lstat(at)
	return place{at, parts[0], fi}, parts, err
}

// known returns the layers of a directory that was looked up before, nil of another.
func (r *FS) known(name string) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dirs[name]
}

func (r *FS) resolve(op, name string, follow bool) (place, []int, error) {
	if !fs.ValidPath(name) {
		return place{}, nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	p, parts, err := r.walk(name, follow)
	if err != nil {
		return place{}, nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if p.info == nil {
		p.info = rootInfo{}
	} else if name == "." || path.Base(name) != p.info.Name() {
		p.info = named{p.info, path.Base(name)}
	}
	return p, parts, nil
}

// Open implements fs.FS. A device or fifo is not opened.
func (r *FS) Open(name string) (fs.File, error) {
	p, parts, err := r.resolve("open", name, true)
	if err != nil {
		return nil, err
	}
	if p.info.IsDir() {
		return &mergedDir{r: r, p: p, parts: parts}, nil
	}
	if !p.info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return r.layers[p.layer].Open(p.path)
}

// Stat implements fs.StatFS.
func (r *FS) Stat(name string) (fs.FileInfo, error) {
	p, _, err := r.resolve("stat", name, true)
	return p.info, err
}

// Lstat implements fs.ReadLinkFS.
func (r *FS) Lstat(name string) (fs.FileInfo, error) {
	p, _, err := r.resolve("lstat", name, false)
	return p.info, err
}

// ReadLink implements fs.ReadLinkFS.
func (r *FS) ReadLink(name string) (string, error) {
	p, _, err := r.resolve("readlink", name, false)
	if err != nil {
		return "", err
	}
	if p.info.Mode()&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return r.layers[p.layer].Readlink(p.path)
}

// ReadDir implements fs.ReadDirFS.
func (r *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	p, parts, err := r.resolve("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !p.info.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	return r.list(p.path, parts)
}

// list merges the entries of a directory: of each name the highest, without
// the hidden ones.
func (r *FS) list(dir string, parts []int) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	seen := map[string]bool{} // shown, or hidden for the layers below
	for _, l := range parts {
		f, err := r.layers[l].Open(dir)
		if err != nil {
			return nil, err
		}
		entries, err := f.ReadDir(-1)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		var hidden []string
		for _, e := range entries {
			if name, ok := strings.CutPrefix(e.Name(), layer.WhiteoutPrefix); ok {
				hidden = append(hidden, name)
			} else if !seen[e.Name()] {
				out = append(out, e)
				hidden = append(hidden, e.Name())
			}
		}
		for _, name := range hidden {
			seen[name] = true
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// A mergedDir is an open directory.
type mergedDir struct {
	r     *FS
	p     place
	parts []int
	rest  []fs.DirEntry
	read  bool
}

func (d *mergedDir) Stat() (fs.FileInfo, error) { return d.p.info, nil }
func (d *mergedDir) Close() error               { return nil }

func (d *mergedDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.p.path, Err: errors.New("is a directory")}
}

// ReadDir implements fs.ReadDirFile.
func (d *mergedDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if !d.read {
		entries, err := d.r.list(d.p.path, d.parts)
		if err != nil {
			return nil, err
		}
		d.rest, d.read = entries, true
	}
	if n <= 0 {
		out := d.rest
		d.rest = nil
		return out, nil
	}
	if len(d.rest) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.rest))
	out := d.rest[:n]
	d.rest = d.rest[n:]
	return out, nil
}

// named is a FileInfo under the name that it was asked for.
type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

// rootInfo is the root of a tree without layers.
type rootInfo struct{}

func (rootInfo) Name() string       { return "." }
func (rootInfo) Size() int64        { return 0 }
func (rootInfo) Mode() fs.FileMode  { return fs.ModeDir | 0o755 }
func (rootInfo) ModTime() time.Time { return time.Unix(0, 0) }
func (rootInfo) IsDir() bool        { return true }
func (rootInfo) Sys() any           { return nil }
