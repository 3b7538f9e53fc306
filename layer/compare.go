package layer

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// wanted is a path in a layer's tar: of several entries the last counts.
type wanted struct {
	mode  fs.FileMode // type and permission bits
	sum   fileSum     // of a file
	link  string      // of a symbolic link, its target
	entry int64       // the number of the tar's entry
	taken int64       // the entry that took the place of a directory of this path, if there was one
}

// A fileSum is the SHA-256 of a file's content. As text it would take four times
// the memory, and a layer can have a million files.
type fileSum [sha256.Size]byte

// A Difference is a path of a layer whose file is not the one that the blob has.
type Difference struct {
	Path string // in the layer
	Err  error  // wraps ErrMismatch, fs.ErrNotExist or an error of the disk
}

// Compare compares the directory of a layer with its blob, which limits bound. It
// returns every difference; the error is about files that could not be read at all.
func Compare(ctx context.Context, dir string, blob io.Reader, limits Limits) (_ []Difference, err error) {
	want, err := readWanted(ctx, blob, limits)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	var out []Difference
	differs := func(p string, err error) { out = append(out, Difference{p, err}) }
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			differs(p, err)
			return nil
		}
		w, ok := want[p]
		delete(want, p)
		switch {
		case ok:
			if err := compareFile(root, p, d, w); err != nil {
				differs(p, err)
			}
		case p != "." && !d.IsDir(): // directories need not be listed
			differs(p, fmt.Errorf("%w: it is not in the layer", ErrMismatch))
		}
		return nil
	})
	for _, p := range slices.Sorted(maps.Keys(want)) {
		differs(p, fs.ErrNotExist)
	}
	return out, err
}

// compareFile compares the file, link or device at p.
func compareFile(root *os.Root, p string, d fs.DirEntry, w wanted) error {
	fi, err := d.Info()
	if err != nil {
		return err
	}
	if fi.Mode().Type() != w.mode.Type() {
		return fmt.Errorf("%w: it is a %s, want %s", ErrMismatch, fi.Mode().Type(), w.mode.Type())
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		if got, err := root.Readlink(p); err != nil || got != w.link {
			return errors.Join(err, fmt.Errorf("%w: it points at %q, want %q", ErrMismatch, got, w.link))
		}
		return nil
	case os.Geteuid() == 0 && fi.Mode().Perm() != w.mode.Perm():
		return fmt.Errorf("%w: mode %o, want %o", ErrMismatch, fi.Mode().Perm(), w.mode.Perm())
	case !fi.Mode().IsRegular():
		return nil
	}
	f, err := root.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := Copy(h, f); err != nil {
		return err
	}
	if fileSum(h.Sum(nil)) != w.sum {
		return fmt.Errorf("%w: its content differs", ErrMismatch)
	}
	return nil
}

// readWanted reads the blob of a layer.
func readWanted(ctx context.Context, blob io.Reader, limits Limits) (map[string]wanted, error) {
	r, err := Decompress(blob)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	want := map[string]wanted{}
	read := kept{most: limits.Names}
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := tr.Next()
		if err == io.EOF {
			dropTaken(want)
			return want, nil
		}
		if err != nil {
			return nil, TarError(err)
		}
		if err := read.entry(cmp.Or(limits.Entries, maxEntries)); err != nil {
			return nil, err
		}
		name, err := localName(h.Name)
		if err != nil {
			return nil, err
		}
		if skip, err := belowWhiteout(name); err != nil {
			return nil, err
		} else if skip {
			continue
		}
		name = strings.Clone(name)
		if err := read.hold(name, h.Linkname); err != nil {
			return nil, err
		}
		if base := path.Base(name); strings.HasPrefix(base, WhiteoutPrefix) {
			if base == OpaqueName || !strings.HasPrefix(base, metaPrefix) {
				want[name] = wanted{mode: 0o644, sum: sha256.Sum256(nil), entry: read.entries}
			}
			continue
		}
		if err := wantEntry(want, name, read.entries, h, tr); err != nil {
			return nil, err
		}
	}
}

func wantEntry(want map[string]wanted, name string, entry int64, h *tar.Header, r io.Reader) error {
	w := wanted{mode: h.FileInfo().Mode()}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeLink:
		target, err := localName(h.Linkname)
		if err != nil {
			return err
		}
		if target == name {
			return nil
		}
		w = want[target]
	case tar.TypeSymlink:
		w.link = strings.Clone(h.Linkname)
	case tar.TypeReg, tar.TypeGNUSparse:
		sum := sha256.New()
		if _, err := Copy(sum, r); err != nil {
			return TarError(err)
		}
		w.sum = fileSum(sum.Sum(nil))
	}
	have, ok := want[name]
	if w.entry, w.taken = entry, have.taken; !w.mode.IsDir() && (!ok || have.mode.IsDir()) {
		w.taken = entry // of a directory, which need not be listed
	}
	want[name] = w
	return nil
}

// dropTaken drops the paths of directories that a later entry has replaced. One
// pass at the end keeps a tar that replaces a directory many times linear.
func dropTaken(want map[string]wanted) {
	type replaced struct {
		dir  string // with a slash at its end
		last int64  // the last entry that replaced it, or a directory above it
	}
	var above []replaced // the path's, the outermost first
	for _, p := range slices.SortedFunc(maps.Keys(want), comparePaths) {
		for len(above) > 0 && !strings.HasPrefix(p, above[len(above)-1].dir) {
			above = above[:len(above)-1]
		}
		var last int64
		if len(above) > 0 {
			last = above[len(above)-1].last
		}
		w := want[p]
		if w.entry < last {
			delete(want, p)
		} else if w.taken > 0 {
			above = append(above, replaced{p + "/", max(w.taken, last)})
		}
	}
}

// comparePaths orders paths so that those in a directory come right after it.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}
