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
	Pruned Pruned   // removed from the disk, as no image needs it any more
	// Kept wraps ErrBusy where nothing was pruned, because another process uses
	// the store: the next prune frees the space.
	Kept error
}

// Remove removes the name nameOrID or, given an ID, the image with all its
// names. When an image is gone, the blobs and layers that only it needed are pruned, unless another
// process uses the store: then the next prune takes them.
func (s *Store) Remove(ctx context.Context, nameOrID string) (*Removal, error) {
	var out Removal
	err := s.updateIndex(ctx, func(idx *ocispec.Index) error {
		entry, err := find(idx, nameOrID)
		if err != nil {
			return err
		}
		r, perr := ref.Parse(nameOrID)
		byName := perr == nil && matches(entry, r)
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
		return nil
	})
	if err != nil || out.ID == "" {
		return &out, err
	}
	pruned, err := s.Prune(ctx, PruneOptions{})
	if pruned != nil {
		out.Pruned = *pruned
	}
	switch {
	case errors.Is(err, ErrBusy):
		out.Kept, err = err, nil
	case errors.Is(err, ErrDamaged): // another image's: this one is gone all the same
		s.o.Logger.Warn("not all space is freed", "error", err)
		err = nil
	}
	return &out, err
}
