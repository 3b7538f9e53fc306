package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	storagedriver "github.com/distribution/distribution/v3/registry/storage/driver"
	"github.com/distribution/distribution/v3/registry/storage/driver/factory"

	"github.com/clusterimage/sealer/registry/tree"
)

// driverName is the storage driver's name in distribution's factory: the only way
// to hand a driver to distribution's handlers. The driver is registered while the
// package is initialised, because factory.Register must not run beside the start
// of another handler.
var driverName = registerDriver("sealer-layers")

func registerDriver(name string) string {
	factory.Register(name, driverFactory{})
	return name
}

// driverParameter carries the *layers to serve through the configuration.
const driverParameter = "layers"

type driverFactory struct{}

func (driverFactory) Create(_ context.Context, parameters map[string]any) (storagedriver.StorageDriver, error) {
	l, ok := parameters[driverParameter].(*layers)
	if !ok {
		return nil, fmt.Errorf("storage driver %s: no layers given", driverName)
	}
	return l, nil
}

// layers is a read-only storage driver: the union of the registry trees of
// several layer directories.
type layers struct {
	roots []root // highest layer first
	// where remembers which layer has a path. A pull asks for each path a few
	// times, and layers never change. Missing paths are not remembered, so the
	// map never has more entries than the trees have files.
	where sync.Map // path -> index in roots
}

// openLayers opens the registry trees of all, lowest first. A directory without
// a registry tree adds nothing. Trees are opened through os.Root: a layer may
// come from elsewhere and hold any symbolic link.
func openLayers(all []Layer) (*layers, error) {
	l := &layers{}
	for _, layer := range slices.Backward(all) {
		root, err := layer.open()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open registry layer: %w", err), l.close())
		}
		if root != nil {
			l.roots = append(l.roots, root)
		}
	}
	return l, nil
}

// openTree opens the registry tree of a layer. It returns nil for a layer without
// one: the directory is missing, or something else has its name.
func openTree(path string) (root, error) {
	layer, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer layer.Close()
	if info, err := layer.Lstat(tree.Root); err != nil || !info.IsDir() {
		if err == nil || absent(err) {
			return nil, nil
		}
		return nil, err
	}
	root, err := layer.OpenRoot(tree.Root)
	if err != nil {
		return nil, err
	}
	d, err := newDir(root)
	if err != nil || !whole(d) {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

func (l *layers) close() error {
	var errs []error
	for _, r := range l.roots {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}

// relative turns a driver's path, which starts with a slash, into a path for
// os.Root.
func relative(path string) string {
	if path = strings.TrimPrefix(path, "/"); path == "" {
		return "."
	}
	return path
}

// absent reports that err means that a layer lacks a path. A file in the place
// of one of the directories on the way (ENOTDIR) counts too.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// find calls try with the layers, highest first, until one has path.
func (l *layers) find(path string, try func(s root, path string) error) error {
	name := relative(path)
	if i, ok := l.where.Load(path); ok {
		if err := try(l.roots[i.(int)], name); err == nil {
			return nil
		}
	}
	for i, s := range l.roots {
		err := try(s, name)
		if err == nil {
			if i > 0 {
				l.where.Store(path, i)
			}
			return nil
		}
		if !absent(err) {
			return l.fault(err)
		}
	}
	return notFound(path)
}

// open returns the highest layer's file at path.
func (l *layers) open(path string) (f io.ReadSeekCloser, err error) {
	err = l.find(path, func(s root, name string) (err error) {
		f, err = s.open(name)
		return err
	})
	return f, err
}

func notFound(path string) error {
	return storagedriver.PathNotFoundError{Path: path, DriverName: driverName}
}

func (l *layers) fault(err error) error {
	return storagedriver.Error{DriverName: driverName, Detail: err}
}

// Name implements storagedriver.StorageDriver.
func (l *layers) Name() string { return driverName }

// GetContent implements storagedriver.StorageDriver.
func (l *layers) GetContent(_ context.Context, path string) ([]byte, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, l.fault(err)
	}
	return b, nil
}

// Reader implements storagedriver.StorageDriver.
func (l *layers) Reader(_ context.Context, path string, offset int64) (io.ReadCloser, error) {
	f, err := l.open(path)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		f.Close()
		return nil, storagedriver.InvalidOffsetError{Path: path, Offset: offset, DriverName: driverName}
	}
	return f, nil
}

// Stat implements storagedriver.StorageDriver.
func (l *layers) Stat(_ context.Context, path string) (storagedriver.FileInfo, error) {
	var info fileInfo
	err := l.find(path, func(s root, name string) (err error) {
		info, err = s.stat(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	info.path = path
	return info, nil
}

// List implements storagedriver.StorageDriver: the union of the layers' entries.
func (l *layers) List(_ context.Context, path string) ([]string, error) {
	var out []string
	found := false
	for _, r := range l.roots {
		names, err := r.names(relative(path))
		if err != nil {
			if absent(err) {
				continue
			}
			return nil, l.fault(err)
		}
		found = true
		for _, n := range names {
			out = append(out, strings.TrimSuffix(path, "/")+"/"+n)
		}
	}
	if !found {
		return nil, notFound(path)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// Walk implements storagedriver.StorageDriver.
func (l *layers) Walk(ctx context.Context, path string, f storagedriver.WalkFn, options ...func(*storagedriver.WalkOptions)) error {
	return storagedriver.WalkFallback(ctx, l, path, f, options...)
}

// RedirectURL implements storagedriver.StorageDriver. The "redirect" hands the
// open file to blobWriter, which sends it.
func (l *layers) RedirectURL(r *http.Request, path string) (string, error) {
	w, ok := r.Context().Value(blobWriterKey{}).(*blobWriter)
	if !ok {
		return "", nil
	}
	f, err := l.open(path)
	if err != nil {
		return "", err
	}
	file, ok := f.(*os.File)
	if !ok {
		return "", f.Close()
	}
	w.file = file
	return "file:" + path, nil
}

// PutContent implements storagedriver.StorageDriver; the driver is read-only.
func (l *layers) PutContent(context.Context, string, []byte) error { return readOnly() }

// Writer implements storagedriver.StorageDriver; the driver is read-only.
func (l *layers) Writer(context.Context, string, bool) (storagedriver.FileWriter, error) {
	return nil, readOnly()
}

// Move implements storagedriver.StorageDriver; the driver is read-only.
func (l *layers) Move(context.Context, string, string) error { return readOnly() }

// Delete implements storagedriver.StorageDriver; the driver is read-only.
func (l *layers) Delete(context.Context, string) error { return readOnly() }

func readOnly() error { return storagedriver.ErrUnsupportedMethod{DriverName: driverName} }

// fileInfo describes a file. It implements storagedriver.FileInfo.
type fileInfo struct {
	path     string
	size     int64
	modified time.Time
	dir      bool
}

func (f fileInfo) Path() string       { return f.path }
func (f fileInfo) Size() int64        { return f.size }
func (f fileInfo) ModTime() time.Time { return f.modified }
func (f fileInfo) IsDir() bool        { return f.dir }
