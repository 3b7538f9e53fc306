package store

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/tree"
)

// ExportOptions are the options of ExportTar and ExportDir.
type ExportOptions struct {
	// Platform chooses one of an image for several; nil as in Image.
	Platform *ocispec.Platform
	// NoRegistry leaves the registry tree, the container images inside, out.
	NoRegistry bool
}

// ExportTar writes the merged file tree of an image as a tar: the files that Mount
// shows, in order. Every file belongs to 0:0, unless root unpacked the layers with
// their owners. A file of several names is written for each. Equal images give an
// equal tar. The error wraps ErrNotFound when there is no such image.
func (s *Store) ExportTar(ctx context.Context, w io.Writer, nameOrID string, o ExportOptions) error {
	tw := tar.NewWriter(w)
	if err := s.export(ctx, nameOrID, o, tarExport{tw}); err != nil {
		return fmt.Errorf("export %s: %w", nameOrID, err)
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("export %s: %w", nameOrID, err)
	}
	return nil
}

// ExportDir writes the merged file tree of an image into dir, which must be empty
// or not exist, and which appears whole. The files belong to this user and have no
// setuid bits.
func (s *Store) ExportDir(ctx context.Context, dir, nameOrID string, o ExportOptions) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("export %s: %w", nameOrID, err)
		}
	}()
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w: it is not empty", dir, fs.ErrExist)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, layer.Remove(tmp))
		}
	}()
	root, err := os.OpenRoot(tmp)
	if err != nil {
		return err
	}
	to := &dirExport{root: root}
	if err := errors.Join(s.export(ctx, nameOrID, o, to), to.finish(), root.Close()); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(tmp, dir)
}

// An exporter takes the files of a tree, directories before their content.
type exporter interface {
	dir(name string, fi fs.FileInfo) error
	file(name string, fi fs.FileInfo, content io.Reader) error
	link(name string, fi fs.FileInfo, target string) error
}

func (s *Store) export(ctx context.Context, nameOrID string, o ExportOptions, to exporter) (err error) {
	if err := s.Hold(ctx); err != nil {
		s.o.Logger.Debug("export without a lock", "error", err) // a read-only store cannot be pruned either
	}
	img, err := s.Image(ctx, nameOrID, o.Platform)
	if err != nil {
		return err
	}
	for _, l := range img.Layers {
		if l.IsRegistry() && !o.NoRegistry {
			if _, err := s.Tree(ctx, l.ID); err != nil {
				return err
			}
		}
	}
	files, err := s.Rootfs(img.LayerIDs())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	return fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err := errors.Join(err, ctx.Err()); err != nil || name == "." {
			return err
		}
		if o.NoRegistry && name == tree.Root {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		switch fi.Mode().Type() {
		case fs.ModeDir:
			return to.dir(name, fi)
		case fs.ModeSymlink:
			target, err := files.ReadLink(name)
			if err != nil {
				return err
			}
			return to.link(name, fi, target)
		case 0:
			f, err := files.Open(name)
			if err != nil {
				return err
			}
			return errors.Join(to.file(name, fi, f), f.Close())
		}
		return fmt.Errorf("%s: %w: it is no file, directory or link", name, errors.ErrUnsupported)
	})
}

// tarExport writes a tar.
type tarExport struct{ tw *tar.Writer }

func (t tarExport) header(name string, fi fs.FileInfo, target string) error {
	h, err := tar.FileInfoHeader(fi, target)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Format = name, "", "", tar.FormatPAX
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.ModTime = h.ModTime.Truncate(time.Second)
	if os.Geteuid() != 0 { // they were unpacked without their owners
		h.Uid, h.Gid = 0, 0
	}
	if fi.IsDir() {
		h.Name += "/"
	}
	if target != "" { // its time was not kept
		h.ModTime = time.Unix(0, 0)
	}
	return t.tw.WriteHeader(h)
}

func (t tarExport) dir(name string, fi fs.FileInfo) error { return t.header(name, fi, "") }

func (t tarExport) link(name string, fi fs.FileInfo, target string) error {
	return t.header(name, fi, target)
}

func (t tarExport) file(name string, fi fs.FileInfo, content io.Reader) error {
	if err := t.header(name, fi, ""); err != nil {
		return err
	}
	_, err := layer.Copy(t.tw, content)
	return err
}

// dirExport writes into a directory.
type dirExport struct {
	root *os.Root
	dirs []exportedDir
}

// An exportedDir is a directory whose mode and time are set when it is filled.
type exportedDir struct {
	name string
	mode fs.FileMode
	time time.Time
}

func (e *dirExport) dir(name string, fi fs.FileInfo) error {
	e.dirs = append(e.dirs, exportedDir{name, fi.Mode().Perm(), fi.ModTime()})
	return e.root.Mkdir(name, 0o700)
}

func (e *dirExport) link(name string, _ fs.FileInfo, target string) error {
	return e.root.Symlink(target, name)
}

func (e *dirExport) file(name string, fi fs.FileInfo, content io.Reader) error {
	f, err := e.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = layer.Copy(f, content)
	if err := errors.Join(err, f.Chmod(fi.Mode().Perm()), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return e.root.Chtimes(name, fi.ModTime(), fi.ModTime())
}

func (e *dirExport) finish() error {
	for _, d := range slices.Backward(e.dirs) {
		if err := errors.Join(e.root.Chtimes(d.name, d.time, d.time), e.root.Chmod(d.name, d.mode)); err != nil {
			return err
		}
	}
	return nil
}
