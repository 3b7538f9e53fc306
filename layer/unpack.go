package layer

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// The marks of deletions in a layer; OCI image specification, layer.md,
// "Whiteouts".
const (
	// WhiteoutPrefix begins the name of a file that deletes the rest of the name
	// from the layers below.
	WhiteoutPrefix = ".wh."
	// OpaqueName is the file that hides a directory of the layers below.
	OpaqueName = ".wh..wh..opq"

	metaPrefix = ".wh..wh." // all other names with this beginning are AUFS' own
)

// unpackOptions bound the content of a tar.
type unpackOptions struct {
	devices bool   // device nodes and fifos
	limit   int64  // bytes of all files together
	guessed bool   // limit is a guess of ours, and not the image's own size
	entries int64  // of the tar; 0 is maxEntries
	names   int64  // bytes that are kept; 0 is maxKept
	like    string // see Options.Like
}

// An unpacker unpacks one tar, which it does not trust: every name goes
// through os.Root, which follows no link out of the directory.
type unpacker struct {
	o    unpackOptions
	root *os.Root
	like *os.Root // nil when there is none
	own  bool     // root: keep owners
	size int64    // bytes of the files so far
	kept kept

	// The directory of the last file, so that a directory of many files is not
	// looked up again for each. Dropped whenever an entry could replace a
	// directory.
	parent     *os.Root
	parentName string // "" when no directory was entered

	dirs []*tar.Header // their modes and times are set last
}

// unpack unpacks the uncompressed tar r into dir, an empty directory, and
// returns the bytes of its files. An error wraps ErrInvalid when it is the
// tar's fault. r is not read to its end.
func unpack(ctx context.Context, dir string, r io.Reader, o unpackOptions) (_ int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	u := &unpacker{o: o, root: root, own: os.Geteuid() == 0, kept: kept{most: o.names}}
	defer func() { err = errors.Join(err, u.leave(), root.Close()) }()
	if o.like != "" {
		if u.like, err = os.OpenRoot(o.like); err == nil {
			defer u.like.Close()
		}
	}
	tr := tar.NewReader(r)
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, TarError(err)
		}
		if err := u.entry(h, tr); err != nil {
			return 0, fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
	if err := u.leave(); err != nil {
		return 0, err
	}
	for i := len(u.dirs) - 1; i >= 0; i-- {
		h := u.dirs[i]
		if fi, err := root.Lstat(h.Name); err != nil || !fi.IsDir() {
			continue // a later entry took its place
		}
		err := u.extended(h)
		if err == nil {
			err = u.attributes(root, h.Name, h)
		}
		if err != nil {
			return 0, fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
	return u.size, nil
}

// TarError makes the errors of archive/tar about the format wrap ErrInvalid; others
// are the disk's or the network's.
func TarError(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: read tar: %w", ErrInvalid, err)
	}
	return fmt.Errorf("read tar: %w", err)
}

// entry unpacks one entry.
func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if err := u.kept.entry(cmp.Or(u.o.entries, maxEntries)); err != nil {
		return err
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if skip, err := belowWhiteout(name); skip || err != nil {
		return err
	}
	base := path.Base(name)
	if strings.HasPrefix(base, WhiteoutPrefix) {
		if base != OpaqueName {
			if strings.HasPrefix(base, metaPrefix) {
				return nil
			}
			if rest := strings.TrimPrefix(base, WhiteoutPrefix); rest == "" || rest == "." || rest == ".." {
				return fmt.Errorf("%w: a whiteout of nothing", ErrInvalid)
			}
		}
		// A deletion is a mark, whatever the entry holds.
		h = &tar.Header{Typeflag: tar.TypeReg, Mode: 0o644, ModTime: h.ModTime}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(name, h)
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h, r)
	case tar.TypeSymlink:
		return u.make(name, h, func(in *os.Root, base string) error { return in.Symlink(h.Linkname, base) })
	case tar.TypeLink:
		return u.link(name, h)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		if !u.o.devices {
			return fmt.Errorf("%w: it is a device node or fifo; these are unpacked only where root asks for it", ErrInvalid)
		}
		return u.make(name, h, func(in *os.Root, base string) error { return makeNode(in, base, h) })
	case tar.TypeXGlobalHeader:
		return nil
	}
	return fmt.Errorf("%w: an entry of type %q", ErrInvalid, h.Typeflag)
}

// belowWhiteout refuses a name below a whiteout, which is no directory, and
// reports whether it lies in a directory of AUFS' own, which is skipped.
func belowWhiteout(name string) (skip bool, err error) {
	for part := range strings.SplitSeq(path.Dir(name), "/") {
		switch {
		case strings.HasPrefix(part, metaPrefix) && part != OpaqueName:
			return true, nil
		case strings.HasPrefix(part, WhiteoutPrefix):
			return false, fmt.Errorf("%w: it lies below a whiteout", ErrInvalid)
		}
	}
	return false, nil
}

// maxName is the most bytes of a path in a layer: the kernel opens no longer one,
// and the time to walk a tree grows with the square of its depth.
const maxName = 4096

// localName returns the path that an entry's name means inside the layer, "."
// for its root. A name with ".." is refused rather than cleaned: nothing
// honest writes it.
func localName(name string) (string, error) {
	if len(name) > maxName {
		return "", fmt.Errorf("%w: the path has more than %d bytes", ErrInvalid, maxName)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: the path leads out of the layer", ErrInvalid)
		}
	}
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%w: a NUL byte in the path", ErrInvalid)
	}
	return path.Clean(strings.TrimLeft(path.Clean("/"+name), "/")), nil
}

// file writes a regular file.
func (u *unpacker) file(name string, h *tar.Header, r io.Reader) error {
	switch {
	case h.Size <= u.o.limit-u.size:
	case u.o.guessed:
		return fmt.Errorf("%w: %w: its files unpack to more than %d bytes", ErrInvalid, ErrLimit, u.o.limit)
	default:
		return fmt.Errorf("%w: the layer's files exceed the %d bytes that it should have", ErrInvalid, u.o.limit)
	}
	t, err := u.equalFile(name, h, r)
	if err != nil {
		return err
	}
	defer t.f.Close()
	return u.make(name, h, func(in *os.Root, base string) (err error) {
		if t.f != nil && t.n == h.Size {
			switch err := link(t.f, in, base); {
			case err == nil:
				u.size += t.n
				return nil
			case errors.Is(err, fs.ErrExist):
				return err
			}
		}
		f, err := in.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		n, err := t.copy(f, r)
		u.size += n
		if err != nil {
			return err
		}
		if n != h.Size {
			return fmt.Errorf("%w: %d bytes, want %d", ErrInvalid, n, h.Size)
		}
		if err := u.owner(h, f.Chown, f.Chmod); err != nil {
			return err
		}
		return setAttributes(f, h.PAXRecords) // last: a change of owner takes capabilities away
	})
}

// link makes a hard link to an entry that came before.
func (u *unpacker) link(name string, h *tar.Header) error {
	target, err := localName(h.Linkname)
	if err != nil {
		return fmt.Errorf("hard link to %q: %w", h.Linkname, err)
	}
	if target == name {
		if _, err := u.root.Lstat(name); err != nil {
			return fmt.Errorf("hard link to itself: %w", hostile(err))
		}
		return nil
	}
	if err := u.leave(); err != nil {
		return err
	}
	if parent := path.Dir(name); parent != "." {
		if err := u.mkdirAll(parent); err != nil {
			return hostile(err)
		}
	}
	err = u.root.Link(target, name)
	if errors.Is(err, fs.ErrExist) {
		if err := u.root.RemoveAll(name); err != nil {
			return hostile(err)
		}
		err = u.root.Link(target, name)
	}
	if err != nil {
		if fi, statErr := u.root.Lstat(target); statErr == nil && fi.IsDir() {
			err = fmt.Errorf("%w: a directory has no hard links", ErrInvalid) // the kernel's error is that of a missing right
		}
		return fmt.Errorf("hard link to %q: %w", h.Linkname, hostile(err))
	}
	return nil
}

// make calls create with the directory of name, which it makes when no entry
// did, and the last element of name. An earlier entry of that name is replaced.
func (u *unpacker) make(name string, h *tar.Header, create func(in *os.Root, base string) error) error {
	if name == "." {
		return fmt.Errorf("%w: the layer's root is no directory", ErrInvalid)
	}
	in, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	err = create(in, base)
	if errors.Is(err, fs.ErrExist) {
		if err := in.RemoveAll(base); err != nil {
			return hostile(err)
		}
		err = create(in, base)
		// base may be on the path of u.parent: forget it.
		defer func() { u.parentName = "" }()
	}
	if err != nil {
		return hostile(err)
	}
	return u.attributes(in, base, h)
}

// enter returns the directory name.
func (u *unpacker) enter(name string) (*os.Root, error) {
	if u.parent != nil && u.parentName != "" && u.parentName == name {
		return u.parent, nil
	}
	if err := u.leave(); err != nil {
		return nil, err
	}
	if name == "." {
		return u.root, nil
	}
	in, err := u.root.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err := u.mkdirAll(name); err != nil {
			return nil, hostile(err)
		}
		in, err = u.root.OpenRoot(name)
	}
	if err != nil {
		return nil, hostile(err)
	}
	u.parent, u.parentName = in, name
	return in, nil
}

// leave closes the directory that was entered last.
func (u *unpacker) leave() error {
	if u.parent == nil {
		return nil
	}
	in := u.parent
	u.parent = nil
	return in.Close()
}

// attributes sets owner, mode and times.
func (u *unpacker) attributes(in *os.Root, name string, h *tar.Header) error {
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse { // files were open
		chown := func(uid, gid int) error { return in.Lchown(name, uid, gid) }
		chmod := func(mode fs.FileMode) error { return in.Chmod(name, mode) }
		if err := u.owner(h, chown, chmod); err != nil {
			return hostile(err)
		}
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil // its time nobody reads
	}
	if h.ModTime.IsZero() {
		h.ModTime = time.Unix(0, 0)
	}
	if err := in.Chtimes(name, h.ModTime, h.ModTime); err != nil {
		return hostile(err)
	}
	return nil
}

// owner sets owner and mode.
func (u *unpacker) owner(h *tar.Header, chown func(uid, gid int) error, chmod func(fs.FileMode) error) error {
	if u.own && (h.Uid != 0 || h.Gid != 0) { // before the mode: it would lose setuid bits
		err := chown(h.Uid, h.Gid)
		if err != nil && !(InUserNamespace() && errors.Is(err, syscall.EINVAL)) { // it has no such owner
			return err
		}
	}
	if h.Typeflag == tar.TypeSymlink {
		return nil // its mode means nothing
	}
	return chmod(u.mode(h))
}

// mode returns the permissions of the file that h is unpacked to. As an ordinary user the
// owner must be able to read the layer and to delete it.
func (u *unpacker) mode(h *tar.Header) fs.FileMode {
	mode := h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if !u.own {
		mode |= 0o400
		if h.Typeflag == tar.TypeDir {
			mode |= 0o700
		}
	}
	return mode
}

// hostile marks an error that the tar's names caused, not the disk: a path
// through a file or a link that leaves the layer, a name too long.
func hostile(err error) error {
	var disk bool
	for _, e := range diskErrors() {
		disk = disk || errors.Is(err, e)
	}
	if disk || errors.Is(err, ErrInvalid) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}
