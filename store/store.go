package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/ref"
)

var (
	// ErrNotFound is wrapped by errors about an image, a platform of it, a
	// layer or a blob that the store does not have.
	ErrNotFound = errors.New("not found")

	// ErrDamaged marks an image that is in the store, but not all that is read
	// of it.
	ErrDamaged = errors.New("the store lacks a part of it")

	// ErrMismatch is wrapped by errors about content that contradicts its
	// descriptor: another digest, too short, too long. It is layer.ErrMismatch.
	ErrMismatch = layer.ErrMismatch
	// ErrInvalid is wrapped by errors about a manifest, config, layer or
	// archive that breaks the format, or that tries to leave its place. It is
	// layer.ErrInvalid, so that errors.Is finds either.
	ErrInvalid = layer.ErrInvalid
	// ErrLimit is wrapped by errors about content beyond one of Limits. It is
	// layer.ErrLimit.
	ErrLimit = layer.ErrLimit
	// ErrBusy is wrapped when another process, such as a build, uses the store
	// and the operation must not run beside it. The error names that process.
	ErrBusy = errors.New("the store is in use")
)

// An UnknownError says that the store has no image of a name or ID. It wraps
// ErrNotFound.
type UnknownError struct {
	Name  string
	Known []string // the names that there are, sorted
}

// Error implements error.
func (e *UnknownError) Error() string { return fmt.Sprintf("image %s: %v", e.Name, ErrNotFound) }

// Unwrap returns ErrNotFound.
func (e *UnknownError) Unwrap() error { return ErrNotFound }

// Options are the options of Open. The zero value is good.
type Options struct {
	// Logger is told of repairs and of skipped content; nil discards it.
	Logger *slog.Logger
	// Devices lets layers hold device nodes and fifos, which only root can
	// unpack. Otherwise such a layer is refused.
	Devices bool
	// Command is the command that runs, without its arguments: a process that finds
	// the store locked tells it. "" is none.
	Command string
	// Wait is how long Prune and Remove wait for the processes that use the store;
	// 0 is not at all.
	Wait time.Duration
	// Limits bound the content that comes in.
	Limits Limits
}

// Limits bound content from elsewhere: pulled, loaded, copied into an image. The
// zero value of each field is the default.
type Limits struct {
	// Layer are those of one layer; Layer.Entries is also the most entries of an
	// archive.
	Layer layer.Limits
	// Document is the most bytes of a registry layer document; 0 is 32 MiB.
	Document int64
	// Manifest is the most bytes of a manifest that WriteImage writes, as far as
	// mirrored blobs fill it: those beyond are listed in blob manifests; 0 is 3.5 MiB.
	Manifest int64
}

func (l Limits) document() int64 { return cmp.Or(l.Document, maxDocument) }

func (l Limits) manifest() int64 { return cmp.Or(l.Manifest, splitManifest) }

// A Store is a directory of ClusterImages. It is safe for concurrent use, and
// any number of processes may use one directory.
type Store struct {
	reader // of the store's blobs
	root   string
	o      Options

	// The disk, for tests to fail it.
	syncFS     func(*os.File) error                     // flushes the file system of an open file
	syncDir    func(dir string) error                   // flushes the names in dir
	openDirect func(path string) (io.ReadCloser, error) // reads past the page cache

	mu       sync.Mutex
	session  *session                        // the first write begins it
	inflight map[digest.Digest]chan struct{} // blobs being written by this Store; closed when done
	sizes    map[digest.Digest]int64         // bytes of the layers that this Store has unpacked
}

// DefaultRoot returns the directory of the store when the user names none:
// SEALER_ROOT, else /var/lib/sealer for root and $XDG_DATA_HOME/sealer
// (~/.local/share/sealer) for others.
func DefaultRoot() string {
	if root := os.Getenv("SEALER_ROOT"); root != "" {
		return root
	}
	if os.Geteuid() == 0 {
		return "/var/lib/sealer"
	}
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			home = os.TempDir()
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "sealer")
}

// Open opens the store in root, or in DefaultRoot when root is "". A directory
// that does not exist is an empty store; the first write makes it. Files that
// dead processes left half-done are cleared where the store may be written. The
// caller closes the Store.
func Open(root string, o Options) (*Store, error) {
	root = cmp.Or(root, DefaultRoot())
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", root, err)
	}
	if fi, err := os.Stat(abs); err == nil && !fi.IsDir() {
		return nil, fmt.Errorf("open store %s: it is not a directory", root)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Store{reader: reader{dirs: []string{filepath.Join(abs, "image", "blobs", "sha256")}}, root: abs, o: o, syncFS: syncFS, syncDir: syncDir, openDirect: openDirect, inflight: map[digest.Digest]chan struct{}{}, sizes: map[digest.Digest]int64{}}
	if err := s.recover(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", root, err)
	}
	return s, nil
}

// Root returns the absolute path of the store's directory.
func (s *Store) Root() string { return s.root }

// CacheDir returns the directory for the build's cache. It exists once
// something was written to the store; prune may empty it.
func (s *Store) CacheDir() string { return s.path("cache") }

// LayerDir returns the directory of an unpacked layer, whether it exists or
// not.
func (s *Store) LayerDir(id digest.Digest) string {
	return s.path("data", "overlay2", encoded(id))
}

// BlobPath returns the file of a blob, whether it exists or not. It must not be
// written to.
func (s *Store) BlobPath(d digest.Digest) string {
	return s.reader.path(d)
}

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{s.root}, elem...)...)
}

// encoded returns the hex part of d, or a name that nothing has when d is not
// a digest that the store keeps: d must never lead out of its directory.
func encoded(d digest.Digest) string {
	if !ref.IsSHA256(d) {
		return "invalid"
	}
	return d.Encoded()
}

// checkDigest is ref.CheckDigest, with errors that wrap ErrInvalid.
func checkDigest(d digest.Digest) error {
	if err := ref.CheckDigest(d); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}
