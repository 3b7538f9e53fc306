package build

import (
	"archive/tar"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/clusterimage/sealer/layer"
)

// A walker collects the entries of one COPY. Directories are read concurrently:
// the cost is one stat for each file.
type walker struct {
	ctx     *buildContext // for the ignore file and the credentials; nil outside of the context
	exclude func(rel string) (bool, error)
	chmod   int64 // -1: by the execute bit
	uid     int
	gid     int
	warn    func(msg string)
	look    bool // only faults and warnings are wanted

	match sync.Mutex // patterns are compiled when they are first used
	more  errgroup.Group

	mu   sync.Mutex
	dirs [][]entry // by directory, until add has them all
	found
}

// notCopied is said of a list with credentials.
const notCopied = " is not copied: it holds credentials"

// found is the result of a walk, unordered; add sorts it.
type found struct {
	entries  []entry
	warnings []string
	errs     []error
}

// add collects src of root as target; with contents, the files of src go into
// target.
func (w *walker) add(root *os.Root, src string, fi fs.FileInfo, target string, contents bool) {
	defer w.tell()
	if !fi.IsDir() {
		w.file(&w.found, root, src, statOf(fi), target)
		return
	}
	if !contents && target != "." {
		w.put(&w.found, entry{name: target, typ: tar.TypeDir}, fi.Mode())
	}
	w.more.SetLimit(runtime.GOMAXPROCS(0))
	w.walk(root, src, target, "")
	_ = w.more.Wait() // errors are in found
	w.entries = slices.Concat(append(w.dirs, w.entries)...)
	w.dirs = nil
	slices.SortFunc(w.entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	slices.SortFunc(w.errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
}

// tell gives the warnings in one order.
func (w *walker) tell() {
	slices.Sort(w.warnings)
	for _, msg := range w.warnings {
		w.warn(msg)
	}
}

// walk collects the files of dir. rel is dir's path below the source.
func (w *walker) walk(root *os.Root, dir, target, rel string) {
	var f found
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dirs = append(w.dirs, f.entries)
		w.warnings = append(w.warnings, f.warnings...)
		w.errs = append(w.errs, f.errs...)
	}()
	list, err := list(root, dir)
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", dir, plain(err)))
		return
	}
	if !w.look {
		f.entries = make([]entry, 0, len(list))
	}
	for _, d := range list {
		src := below(dir, d.name)
		if d.err != nil {
			d.stat = &fileStat{} // it is asked whether that counts
		}
		skip, prune, err := w.skip(src, below(rel, d.name))
		if err == nil && d.err != nil && !skip {
			err = plain(d.err)
		}
		if err != nil {
			f.errs = append(f.errs, fmt.Errorf("%s: %w", src, err))
			continue
		}
		isDir := d.stat.mode.IsDir()
		if prune || skip && !isDir {
			continue
		}
		to := src // one text for both where they are equal
		if dir != target {
			to = below(target, d.name)
		}
		if !isDir {
			w.file(&f, root, src, d.stat, to)
			continue
		}
		if !skip {
			w.put(&f, entry{name: to, typ: tar.TypeDir}, d.stat.mode)
		}
		next := func() error { w.walk(root, src, to, below(rel, d.name)); return nil }
		if !w.more.TryGo(next) {
			_ = next()
		}
	}
}

// below is path.Join for clean arguments.
func below(dir, name string) string {
	if dir == "." || dir == "" {
		return name
	}
	return dir + "/" + name
}

// skip says whether the ignore file or --exclude leaves src out.
func (w *walker) skip(src, rel string) (skip, prune bool, err error) {
	if w.exclude == nil && (w.ctx == nil || w.ctx.ignore == nil) {
		return false, false, nil
	}
	w.match.Lock()
	defer w.match.Unlock()
	if w.ctx != nil {
		if skip, prune, err = w.ctx.ignored(src); skip || err != nil {
			return skip, prune, err
		}
	}
	if w.exclude != nil {
		skip, err = w.exclude(rel)
	}
	return skip, false, err
}

func (w *walker) file(f *found, root *os.Root, src string, st *fileStat, target string) {
	switch m := st.mode; {
	case w.ctx != nil && st.same(w.ctx.lock):
		// The build's own record: with it in the image, a build would differ
		// from the one that wrote it.
	case w.ctx != nil && st.same(w.ctx.secret), path.Base(src) == authListName: // of a git repository, too
		f.warnings = append(f.warnings, src+notCopied)
	case m.IsRegular():
		w.put(f, entry{name: target, typ: tar.TypeReg, size: st.size, root: root, path: src, stat: st}, m)
	case m&fs.ModeSymlink != 0:
		link, err := root.Readlink(src)
		if err != nil {
			f.errs = append(f.errs, fmt.Errorf("%s: %w", src, plain(err)))
			return
		}
		w.put(f, entry{name: target, typ: tar.TypeSymlink, link: link}, m)
	default:
		f.errs = append(f.errs, fmt.Errorf("%s is %s: only files, directories and symbolic links can be copied; list it in .sealerignore", src, kind(m)))
	}
}

func (w *walker) put(f *found, e entry, m fs.FileMode) {
	if err := layerName(e.name); err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", cmp.Or(e.path, e.name), err))
		return
	}
	// A heredoc, a download or a file may get this name only here.
	if e.typ != tar.TypeDir && path.Base(e.name) == authListName {
		f.warnings = append(f.warnings, e.name+notCopied)
		return
	}
	if w.look {
		return
	}
	e.mode = mode(m)
	w.permit(&e)
	f.entries = append(f.entries, e)
}

// permit gives e the owner of --chown and, over the one that it has, the mode
// of --chmod.
func (w *walker) permit(e *entry) {
	e.uid, e.gid = w.uid, w.gid
	switch {
	case e.typ == tar.TypeSymlink:
		e.mode = 0o777
	case w.chmod >= 0:
		e.mode = w.chmod
		if e.typ == tar.TypeDir {
			e.mode |= e.mode & 0o444 >> 2 // a right to read a directory includes entering it
		}
	}
}

// layerName refuses a name that a layer cannot hold.
func layerName(name string) error {
	if strings.HasPrefix(name, layer.WhiteoutPrefix) || strings.Contains(name, "/"+layer.WhiteoutPrefix) {
		return fmt.Errorf("names that begin with %s mean a deletion in a layer; give it another name", layer.WhiteoutPrefix)
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeNamedPipe != 0:
		return "a fifo"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return strings.TrimSpace("of a strange kind " + m.Type().String())
}
