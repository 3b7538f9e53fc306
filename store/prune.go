package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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

// A need is the content of all images, which prune leaves.
type need struct {
	blobs, layers map[digest.Digest]bool
	// Of a damaged image some content may have no known name: then no blob, or no
	// layer, may be taken.
	allBlobs, allLayers bool
	damaged             []error // names the images, and the way out
}

// needed returns the need of all images, mounts and pins. It fails rather than
// miss one: prune removes every blob that is not named.
func (s *Store) needed(ctx context.Context) (*need, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	n := &need{blobs: map[digest.Digest]bool{}}
	if n.layers, err = s.pinned(); err != nil {
		return nil, err
	}
	mounts, err := s.Mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		for _, id := range m.Layers {
			n.layers[id] = true
		}
	}
	for id := range n.layers {
		if err := s.linked(id, n.blobs); err != nil {
			return nil, err
		}
	}
	for _, entry := range idx.Manifests {
		if err := s.needs(ctx, n, entry); err == nil {
			continue
		} else if !isDamage(err) {
			return nil, fmt.Errorf("image %s: %w", nameOr(entry), err)
		} else {
			n.damaged = append(n.damaged, fmt.Errorf("image %s: %w: %w: mend it with sealer verify --repair, or drop it with sealer rmi", nameOr(entry), ErrDamaged, err))
		}
	}
	return n, nil
}

// linked adds the blobs that the tree of the registry layer id links to. Their
// bytes stay on the disk with the links: an image that comes back finds them, and
// writes no second copy that the links would miss.
func (s *Store) linked(id digest.Digest, blobs map[digest.Digest]bool) error {
	names, err := fs.Glob(os.DirFS(s.LayerDir(id)), path.Join(tree.Root, "docker/registry/v2/blobs/sha256/*/*"))
	if err != nil {
		return err
	}
	if len(names) > 0 {
		blobs[id] = true // the document
	}
	for _, name := range names {
		blobs[digest.NewDigestFromEncoded(digest.SHA256, path.Base(name))] = true
	}
	return nil
}

// needs adds the content of one image to n: as far as it can be read.
func (s *Store) needs(ctx context.Context, n *need, entry ocispec.Descriptor) error {
	n.blobs[entry.Digest] = true
	manifests, sub, err := s.manifests(ctx, entry)
	if err != nil {
		n.allBlobs, n.allLayers = true, true
		return err
	}
	if sub != nil {
		for _, m := range sub.Manifests { // attestations too
			n.blobs[m.Digest] = true
		}
	}
	var errs []error
	for _, desc := range manifests {
		var m ocispec.Manifest
		if err := s.readJSON(ctx, desc, maxManifest, &m); err != nil {
			n.allBlobs, n.allLayers = true, true
			errs = append(errs, err)
			continue
		}
		for _, d := range append([]ocispec.Descriptor{desc, m.Config}, m.Layers...) {
			n.blobs[d.Digest] = true
		}
		img, err := s.readImage(ctx, desc)
		if err != nil {
			n.allLayers = true // their IDs are in the config
			errs = append(errs, err)
			continue
		}
		for _, l := range img.Layers {
			n.layers[l.ID] = true
		}
	}
	return errors.Join(errs...)
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
