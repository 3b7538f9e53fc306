package build

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ulikunitz/xz"

	"github.com/clusterimage/sealer/layer"
)

// archived reports whether a file is a tar archive, plain or compressed, by its
// content and not by its name, as Dockerfile's ADD does.
func archived(root *os.Root, name string) (bool, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return false, plain(err)
	}
	defer f.Close()
	r, err := decompressed(f)
	if err != nil {
		return false, nil // it only begins as if it were compressed
	}
	defer r.Close()
	_, err = tar.NewReader(r).Next()
	return err == nil, nil
}

// decompressed returns the content of a file that gzip, bzip2, xz or zstd
// compressed, or nothing did.
func decompressed(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	magic, err := b.Peek(6)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(b)), nil
	case bytes.HasPrefix(magic, []byte("\xfd7zXZ\x00")):
		x, err := xz.NewReader(b)
		return io.NopCloser(x), err
	}
	return layer.Decompress(b)
}

// An unarchiver makes entries of an archive's. Their content is written to
// numbered files, so that no name of the archive touches the disk before the
// store, which trusts none, unpacks the layer.
type unarchiver struct {
	w    *walker // owner and mode
	into string
	dir  string // of the numbered files
	root *os.Root
	left int64 // bytes that the archive may still hold

	entries []entry
	byName  map[string]int // of files, for hard links
}

// makeTemp makes a directory for this build's temporary files and opens it.
func (b *builder) makeTemp(ctx context.Context, name string) (dir string, root *os.Root, err error) {
	temp, err := b.tempDir(ctx)
	if err != nil {
		return "", nil, err
	}
	if dir, err = os.MkdirTemp(temp, name); err != nil {
		return "", nil, err
	}
	root, err = os.OpenRoot(dir)
	return dir, root, err
}

// unarchive returns the entries of the archive e, below e.into.
func (b *builder) unarchive(ctx context.Context, e *entry, w *walker) ([]entry, error) {
	dir, root, err := b.makeTemp(ctx, "archive")
	if err != nil {
		return nil, fmt.Errorf("%s: make a directory to unpack into: %w", e.path, err)
	}
	b.closers = append(b.closers, root.Close)
	f, err := openRegular(e.root, e.path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, plain(err))
	}
	defer f.Close()
	r, err := decompressed(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.path, err)
	}
	defer r.Close()
	u := &unarchiver{w: w, into: e.into, dir: dir, root: root, left: layer.MaxContent(e.size), byName: map[string]int{}}
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		h, err := tr.Next()
		if err == io.EOF {
			return u.entries, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: the archive is broken: %w", e.path, err)
		}
		if err := u.add(h, tr); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", e.path, h.Name, err)
		}
	}
}

// add takes one entry of the archive.
func (u *unarchiver) add(h *tar.Header, r io.Reader) error {
	for part := range strings.SplitSeq(h.Name, "/") {
		if part == ".." {
			return errors.New("it leads out of the archive")
		}
	}
	if err := layerName(h.Name); err != nil {
		return err
	}
	if path.Base(h.Name) == authListName {
		u.w.warn(h.Name + notCopied)
		return nil
	}
	name := path.Join(u.into, path.Clean("/" + h.Name)[1:])
	e := entry{name: name, typ: h.Typeflag, mode: h.Mode & 0o7777}
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeDir:
		if path.Clean("/"+h.Name) == "/" {
			return nil // DEST itself, which is not the archive's
		}
	case tar.TypeReg, tar.TypeGNUSparse:
		if err := u.content(&e, h, r); err != nil {
			return err
		}
	case tar.TypeSymlink:
		e.link = h.Linkname
	case tar.TypeLink:
		i, ok := u.byName[path.Join(u.into, path.Clean("/" + h.Linkname)[1:])]
		if !ok {
			return fmt.Errorf("a hard link to %s, which the archive has not", h.Linkname)
		}
		u.entries[i].hard = true
		e = u.entries[i]
		e.name = name
	default:
		return fmt.Errorf("it is %s: only files, directories and links can be unpacked; make the archive without it", kind(h.FileInfo().Mode()))
	}
	if e.typ == tar.TypeReg {
		u.byName[name] = len(u.entries)
	}
	u.w.permit(&e)
	u.entries = append(u.entries, e)
	return nil
}

var errBomb = errors.New("the archive unpacks to far more than its size allows")

// content copies a file of the archive to a numbered file.
func (u *unarchiver) content(e *entry, h *tar.Header, r io.Reader) error {
	if u.left -= h.Size; u.left < 0 {
		return errBomb
	}
	e.typ, e.root, e.path, e.size = tar.TypeReg, u.root, strconv.Itoa(len(u.entries)), h.Size
	for record, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(record, layer.AttributeRecord); ok && layer.KeepsAttribute(name) {
			if e.xattrs == nil {
				e.xattrs = map[string]string{}
			}
			e.xattrs[name] = value
		}
	}
	f, err := os.OpenFile(filepath.Join(u.dir, e.path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
