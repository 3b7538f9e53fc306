package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/tree"
)

// Garbage is something on disk that no image needs.
type Garbage struct {
	Kind string `json:"kind"` // "blob", "layer", "temporary" or "cache"
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes that its removal frees
}

// Pruned lists the content that prune removes, or removed.
type Pruned struct {
	Items []Garbage `json:"items"` // by kind, then path
	Size  int64     `json:"size"`  // bytes
}

// PruneOptions are the options of Prune.
type PruneOptions struct {
	DryRun bool // only list the content that would go
	Cache  bool // empty the build's cache too, and drop the beginnings of blobs that broke off
}

// Prune removes blobs and layers that no image needs and the temporary files that dead processes
// left; the beginnings of blobs that broke off go seven days after their last byte. While something writes to the store, in another process or through
// another Store, only the latter: the result is then returned together with an
// error that wraps ErrBusy. It ends the writing of this Store, so it must not
// run beside it.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	return s.prune(ctx, o, func(Garbage) bool { return true })
}

// prune is Prune of the garbage that chosen chooses.
func (s *Store) prune(ctx context.Context, o PruneOptions, chosen func(Garbage) bool) (_ *Pruned, err error) {
	if _, err := os.Stat(s.path("locks")); errors.Is(err, fs.ErrNotExist) {
		return &Pruned{}, nil // nothing was ever written
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	temporary, err := s.sweep(o.DryRun, o.Cache)
	if err != nil {
		return nil, fmt.Errorf("prune: %w", err)
	}
	out := collect(temporary)
	lock, err := os.OpenFile(s.path("locks", "store"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return out, fmt.Errorf("prune: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	// Between fork and exec a child holds our lock descriptors: wait briefly.
	patience, cancel := context.WithTimeout(ctx, max(s.o.Wait, 300*time.Millisecond))
	defer cancel()
	switch err := s.waitLock(patience, lock, true); {
	case ctx.Err() != nil:
		return out, fmt.Errorf("prune: %w", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return out, fmt.Errorf("prune: %w by %s", ErrBusy, s.holders())
	case err != nil:
		return out, fmt.Errorf("prune: %w", err)
	}
	s.sign(lock)
	plan, damage := s.plan(ctx, o)
	plan = slices.DeleteFunc(plan, func(g Garbage) bool { return !chosen(g) })
	if damage != nil && !errors.Is(damage, ErrDamaged) {
		return out, fmt.Errorf("prune: %w", damage)
	}
	out = collect(append(temporary, plan...))
	var errs []error
	if damage != nil {
		errs = append(errs, damage)
	}
	if o.DryRun {
		return out, errors.Join(errs...)
	}
	for _, g := range plan {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		errs = append(errs, s.take(g))
	}
	errs = append(errs, s.flushDead(lock))
	if err := errors.Join(errs...); err != nil {
		return out, fmt.Errorf("prune: %w", err)
	}
	return out, nil
}

func collect(items []Garbage) *Pruned {
	slices.SortStableFunc(items, func(a, b Garbage) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Path, b.Path))
	})
	p := &Pruned{Items: items}
	for _, g := range items {
		p.Size += g.Size
	}
	return p
}

// take removes g. A directory is first renamed out of its place: half a layer
// must never be seen.
func (s *Store) take(g Garbage) error {
	if g.Kind == "blob" {
		return os.Remove(g.Path)
	}
	dir, err := s.tempDir("garbage")
	if err != nil {
		return err
	}
	moved := filepath.Join(dir.Name(), "g")
	if err := os.Rename(g.Path, moved); err != nil {
		return errors.Join(err, discard(dir))
	}
	return discard(dir)
}

// plan returns the content that no image needs. The caller holds the lock that
// keeps writers away. The error, which wraps ErrDamaged, comes beside the content
// when images are damaged: content that may be theirs is not in it.
func (s *Store) plan(ctx context.Context, o PruneOptions) ([]Garbage, error) {
	n, err := s.needed(ctx)
	if err != nil {
		return nil, err
	}
	var out []Garbage
	for _, in := range []struct {
		kind, dir string
		needed    map[digest.Digest]bool
		keep      bool
	}{
		{"blob", s.path("image/blobs/sha256"), n.blobs, n.allBlobs},
		{"layer", s.path("data/overlay2"), n.layers, n.allLayers},
		{"layer", s.path(overlayDir(false)), n.layers, n.allLayers},
		{"layer", s.path(overlayDir(true)), n.layers, n.allLayers},
		{"cache", s.CacheDir(), nil, !o.Cache},
	} {
		if in.keep {
			continue
		}
		entries, err := os.ReadDir(in.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if in.needed[digest.NewDigestFromEncoded(digest.SHA256, e.Name())] {
				continue
			}
			path := filepath.Join(in.dir, e.Name())
			out = append(out, Garbage{Kind: in.kind, Path: path, Size: ownSize(path)})
		}
	}
	return out, errors.Join(n.damaged...)
}

// ownSize is diskSize without the registry tree's hard links, which are
// counted where the blobs are.
func ownSize(path string) int64 {
	links := filepath.Join(path, tree.Root, "docker/registry/v2/blobs") + string(filepath.Separator)
	var n int64
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(p, links) {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}

// isDamage reports whether err is about content, which stays as it is, and not
// about a disk that cannot be read now.
func isDamage(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrMismatch)
}

// diskSize returns the bytes of the regular files at path.
func diskSize(path string) int64 {
	var n int64
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				n += fi.Size()
			}
		}
		return nil
	})
	return n
}
