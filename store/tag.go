package store

import (
	"context"
	"errors"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// Tag gives an image one more name, taking it from the image that had it.
func (s *Store) Tag(ctx context.Context, nameOrID string, name ref.Reference) error {
	if _, err := s.begin(ctx); err != nil { // so that prune does not take it meanwhile
		return err
	}
	return s.updateIndex(ctx, func(idx *ocispec.Index) error {
		d, err := find(idx, nameOrID)
		if err != nil {
			return err
		}
		setName(idx, name.String(), d, timesOf(d))
		return nil
	})
}

// A Removal is the result of Remove.
type Removal struct {
	Names  []string // the names removed
	ID     string   // the image, when it lost its last name and is gone
	Pruned Pruned   // removed from the disk, as no image needs it any more; of RemoveAll with the last image
	// Kept wraps ErrBusy where nothing was pruned, because another process uses
	// the store: the next prune frees the space.
	Kept error
	// Err says why nothing was removed, or why the space of an image that is gone was
	// not freed.
	Err error
}

// Remove removes the name nameOrID or, given an ID, the image with all its
// names. When an image is gone, the blobs and layers that only it needed are pruned, unless another
// process uses the store: then the next prune takes them.
func (s *Store) Remove(ctx context.Context, nameOrID string) (*Removal, error) {
	r := &s.RemoveAll(ctx, []string{nameOrID})[0]
	return r, r.Err
}

// RemoveAll is Remove of several, in one change of the index and with one prune. The
// results are in the order of namesOrIDs, each with its own error.
func (s *Store) RemoveAll(ctx context.Context, namesOrIDs []string) []Removal {
	out := make([]Removal, len(namesOrIDs))
	last := -1 // the last that removed an image
	changes := false
	err := s.updateIndex(ctx, func(idx *ocispec.Index) error {
		for i, n := range namesOrIDs {
			if out[i] = removeFrom(idx, n); out[i].ID != "" {
				last = i
			}
			changes = changes || out[i].Err == nil
		}
		if !changes {
			return errUnchanged
		}
		return nil
	})
	if errors.Is(err, errUnchanged) {
		return out
	}
	if err != nil {
		for i := range out {
			out[i] = Removal{Err: err}
		}
		return out
	}
	if last < 0 {
		return out
	}
	pruned, err := s.Prune(ctx, PruneOptions{})
	if pruned != nil {
		out[last].Pruned = *pruned
	}
	switch {
	case errors.Is(err, ErrBusy):
		out[last].Kept = err
	case errors.Is(err, ErrDamaged): // another image's: this one is gone all the same
		s.o.Logger.Warn("not all space is freed", "error", err)
	case err != nil:
		out[last].Err = err
	}
	return out
}

// errUnchanged ends a change of the index that would change nothing.
var errUnchanged = errors.New("nothing to change")

// removeFrom removes one name, or one image, from idx.
func removeFrom(idx *ocispec.Index, nameOrID string) (out Removal) {
	entry, err := find(idx, nameOrID)
	if err != nil {
		return Removal{Err: err}
	}
	r, err := ref.Parse(nameOrID)
	byName := err == nil && matches(entry, r)
	idx.Manifests = slices.DeleteFunc(idx.Manifests, func(d ocispec.Descriptor) bool {
		gone := d.Digest == entry.Digest && (!byName || nameOf(d) == nameOf(entry))
		if gone && nameOf(d) != "" {
			out.Names = append(out.Names, nameOf(d))
		}
		return gone
	})
	if !slices.ContainsFunc(idx.Manifests, func(d ocispec.Descriptor) bool { return d.Digest == entry.Digest }) {
		out.ID = entry.Digest.Encoded()
	}
	return out
}
