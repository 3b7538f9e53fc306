package build

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/clusterimage/sealer/layer"
)

// An entry is one file, directory or symbolic link that a layer will hold.
type entry struct {
	name     string // in the rootfs, slash-separated
	typ      byte   // tar.TypeReg, TypeDir, TypeSymlink or TypeLink
	hard     bool   // it is linked
	mode     int64  // permission bits
	uid, gid int
	size     int64
	link     string            // target of a symbolic link, other name of a hard one
	xattrs   map[string]string // extended attributes; see layer.KeepsAttribute

	root *os.Root // of a file: where its content is
	path string   // in root; equal for all names of a file that is linked
	stat *fileStat
	data []byte // the content itself, when root is nil
	into string // of an archive that ADD unpacks: the directory
	sum  []byte // fileSum of the content, when it is known
}

func sortEntries(list []fs.DirEntry) {
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
}

// arrange sorts entries by name, a directory before its files, and drops
// entries that a later source replaces. Of a hard-linked file the first name
// has the content.
func arrange(list []entry) ([]entry, error) {
	if byName := func(a, b entry) int { return cmp.Compare(a.name, b.name) }; !slices.IsSortedFunc(list, byName) {
		slices.SortStableFunc(list, byName)
	}
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
	type file struct {
		root *os.Root
		path string
	}
	first := map[file]string{}
	for i, e := range out {
		if !e.hard {
			continue
		}
		at := file{e.root, e.path}
		if name, ok := first[at]; ok {
			out[i] = entry{name: e.name, typ: tar.TypeLink, link: name, mode: e.mode, uid: e.uid, gid: e.gid}
		} else {
			first[at] = e.name
		}
	}
	return out, nil
}

// mode returns the permissions of a copied file: 0755 if anyone may execute it,
// else 0644. The umask of a clone does not count.
func mode(m fs.FileMode) int64 {
	if m.IsDir() || m&0o111 != 0 {
		return 0o755
	}
	return 0o644
}

// writeTar writes entries, sorted, as a tar whose bytes depend on nothing else.
func writeTar(w io.Writer, list []entry, when time.Time, hashed func(e *entry, sum []byte)) error {
	tw := tar.NewWriter(w)
	buf := make([]byte, 256<<10)
	// Files are read into w's own memory if it offers some: the tar writer
	// passes content on without a copy.
	buffer := func() []byte {
		if own, ok := w.(interface{ AvailableBuffer() []byte }); ok {
			if b := own.AvailableBuffer(); cap(b) > 0 {
				return b[:min(cap(b), len(buf))]
			}
		}
		return buf
	}
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
			h.PAXRecords[layer.AttributeRecord+name] = value
		}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if e.typ != tar.TypeReg {
			continue
		}
		if err := writeContent(tw, e, buffer, hashed); err != nil {
			return err
		}
	}
	return tw.Close()
}

// errChanged reports a file that changed between the build's look at it and its
// reading.
var errChanged = errors.New("it changed while it was read; run the build again when nothing writes to it")

func writeContent(w io.Writer, e *entry, buffer func() []byte, hashed func(e *entry, sum []byte)) (err error) {
	if e.root == nil {
		_, err := w.Write(e.data)
		return err
	}
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	defer f.Close()
	var h *blake3.Hasher
	if hashed != nil && e.sum == nil {
		h = newFileHash()
	}
	n, err := copyContent(w, f, e.size, h, buffer)
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	fi, err := f.Stat()
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, plain(err))
	}
	if n != e.size || fi.Size() != e.size || e.stat != nil && fi.ModTime().UnixNano() != e.stat.mtime {
		return fmt.Errorf("%s: %w", e.path, errChanged)
	}
	if h != nil {
		hashed(e, endFileHash(h))
	}
	return nil
}

// copyContent copies up to size bytes of r to w and to h, which may be nil.
func copyContent(w io.Writer, r io.Reader, size int64, h *blake3.Hasher, buffer func() []byte) (n int64, err error) {
	for n < size {
		b := buffer()
		m, err := r.Read(b[:min(int64(len(b)), size-n)])
		if h != nil {
			h.Write(b[:m])
		}
		if _, err := w.Write(b[:m]); err != nil {
			return n, err
		}
		n += int64(m)
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
