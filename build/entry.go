package build

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/store"
)

// An entry is one file, directory or symbolic link that a layer will hold.
type entry struct {
	name     string // in the rootfs, slash-separated
	typ      byte   // tar.TypeReg, TypeDir or TypeSymlink
	mode     int64  // permission bits
	uid, gid int
	size     int64
	link     string            // target of a symbolic link
	xattrs   map[string]string // extended attributes of a file; see store.KeepsAttribute

	root *os.Root // of a file: where its content is
	path string   // in root
	info fs.FileInfo
	data []byte // the content itself, when root is nil
	sum  []byte // SHA-256 of the content, when it is known
}

func sortEntries(list []fs.DirEntry) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// arrange sorts entries by name, so that a directory stands before what it
// holds, and drops those that a later source replaces.
func arrange(list []entry) ([]entry, error) {
	slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	out := list[:0]
	for _, e := range list {
		if n := len(out); n > 0 && out[n-1].name == e.name {
			if out[n-1].typ != e.typ && (out[n-1].typ == tar.TypeDir || e.typ == tar.TypeDir) {
				return nil, fmt.Errorf("%s is a directory in one source and a file in another", e.name)
			}
			out[n-1] = e
			continue
		}
		out = append(out, e)
	}
	return out, nil
}

// mode returns the permissions of a copied file: 0755 where anyone may execute
// it, else 0644, so that the umask of who cloned the context does not count.
func mode(fi fs.FileInfo) int64 {
	if fi.IsDir() || fi.Mode()&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// writeTar writes entries, sorted, as a tar whose bytes depend on nothing else.
func writeTar(w io.Writer, list []entry, when time.Time, hashed func(e *entry, sum []byte)) error {
	tw := tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	for i := range list {
		e := &list[i]
		h := &tar.Header{
			Typeflag: e.typ, Name: e.name, Linkname: e.link, Size: e.size, Mode: e.mode,
			Uid: e.uid, Gid: e.gid, ModTime: when,
		}
		if e.typ == tar.TypeDir {
			h.Name += "/"
		}
		for name, value := range e.xattrs {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{} // sorted when it is written
			}
			h.PAXRecords[store.AttributeRecord+name] = value
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if e.typ != tar.TypeReg {
			continue
		}
		if err := writeContent(tw, e, buf, hashed); err != nil {
			return err
		}
	}
	return tw.Close()
}

// errChanged says that a file is no longer what it was when the build looked.
var errChanged = errors.New("it changed while it was read; run the build again when nothing writes to it")

func writeContent(w io.Writer, e *entry, buf []byte, hashed func(e *entry, sum []byte)) (err error) {
	if e.root == nil {
		_, err := w.Write(e.data)
		return err
	}
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	defer f.Close()
	var src io.Reader = io.LimitReader(f, e.size)
	h := newHash(hashed != nil && e.sum == nil)
	if h != nil {
		src = io.TeeReader(src, h)
	}
	n, err := io.CopyBuffer(onlyWriter{w}, src, buf)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	if n != e.size || fi.Size() != e.size || e.info != nil && !fi.ModTime().Equal(e.info.ModTime()) {
		return fmt.Errorf("%s: %w", e.path, errChanged)
	}
	if h != nil {
		hashed(e, h.Sum(nil))
	}
	return nil
}

// onlyWriter hides ReadFrom, so that io.CopyBuffer uses its buffer.
type onlyWriter struct{ io.Writer }

// A walker collects the entries of one COPY.
type walker struct {
	ctx      *buildContext // for the ignore file and the credentials; nil outside of the context
	exclude  func(rel string) (bool, error)
	chmod    int64 // -1: by the execute bit
	uid, gid int
	warn     func(msg string)
	entries  []entry
	errs     []error
}

// add collects src of root, to be target; with contents, what src holds goes
// into target.
func (w *walker) add(root *os.Root, src string, fi fs.FileInfo, target string, contents bool) {
	if fi.IsDir() {
		if !contents && target != "." {
			w.put(entry{name: target, typ: tar.TypeDir}, fi)
		}
		w.walk(root, src, target, "")
		return
	}
	w.file(root, src, fi, target)
}

// walk collects what dir holds. rel is its path below the source.
func (w *walker) walk(root *os.Root, dir, target, rel string) {
	list, err := readDir(root, dir)
	if err != nil {
		w.errs = append(w.errs, fmt.Errorf("%s: %w", dir, plain(err)))
		return
	}
	for _, d := range list {
		src, below := path.Join(dir, d.Name()), path.Join(rel, d.Name())
		skip, prune, err := w.skip(src, below)
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s: %w", src, err))
			continue
		}
		if prune || skip && !d.IsDir() {
			continue
		}
		fi, err := d.Info()
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s: %w", src, plain(err)))
			continue
		}
		to := path.Join(target, d.Name())
		if !fi.IsDir() {
			w.file(root, src, fi, to)
			continue
		}
		if !skip {
			w.put(entry{name: to, typ: tar.TypeDir}, fi)
		}
		w.walk(root, src, to, below)
	}
}

// skip says whether the ignore file or --exclude leaves src out.
func (w *walker) skip(src, rel string) (skip, prune bool, err error) {
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

func (w *walker) file(root *os.Root, src string, fi fs.FileInfo, target string) {
	switch m := fi.Mode(); {
	case w.ctx != nil && w.ctx.lock != nil && os.SameFile(fi, w.ctx.lock):
		// The build's own record: with it in the image, a build would differ
		// from the one that wrote it.
	case w.ctx != nil && w.ctx.secret != nil && os.SameFile(fi, w.ctx.secret), path.Base(src) == authListName && w.ctx != nil:
		w.warn(src + " is not copied: it holds credentials")
	case m.IsRegular():
		w.put(entry{name: target, typ: tar.TypeReg, size: fi.Size(), root: root, path: src, info: fi}, fi)
	case m&fs.ModeSymlink != 0:
		link, err := root.Readlink(src)
		if err != nil {
			w.errs = append(w.errs, fmt.Errorf("%s: %w", src, plain(err)))
			return
		}
		w.put(entry{name: target, typ: tar.TypeSymlink, link: link}, fi)
	default:
		w.errs = append(w.errs, fmt.Errorf("%s is %s: only files, directories and symbolic links can be copied; list it in .sealerignore", src, kind(m)))
	}
}

func (w *walker) put(e entry, fi fs.FileInfo) {
	e.uid, e.gid = w.uid, w.gid
	switch {
	case e.typ == tar.TypeSymlink:
		e.mode = 0o777
	case w.chmod < 0:
		e.mode = mode(fi)
	default:
		e.mode = w.chmod
		if e.typ == tar.TypeDir {
			e.mode |= e.mode & 0o444 >> 2 // who may read a directory may enter it
		}
	}
	w.entries = append(w.entries, e)
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
