package store

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image/inventory"
)

// Inventory lists the blobs that images of the store need and that are here, not
// hashed again; with names, the names of the images too. An image that is damaged
// is listed as far as it can be read: the error, which wraps ErrDamaged, comes
// beside the inventory.
func (s *Store) Inventory(ctx context.Context, names bool) (*inventory.Inventory, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	n := &need{blobs: map[digest.Digest]bool{}, layers: map[digest.Digest]bool{}}
	out := &inventory.Inventory{}
	var damage []error
	for _, entry := range idx.Manifests {
		if err := s.needs(ctx, n, entry, nil); err != nil && !isDamage(err) {
			return nil, fmt.Errorf("image %s: %w", nameOr(entry), err)
		} else if err != nil {
			damage = append(damage, fmt.Errorf("image %s: %w", nameOr(entry), damaged(err)))
		}
		if name := nameOf(entry); names && name != "" {
			out.Names = append(out.Names, inventory.Name{Name: name, Digest: entry.Digest})
		}
	}
	for d := range n.blobs {
		fi, err := os.Stat(s.BlobPath(d))
		switch {
		case errors.Is(err, os.ErrNotExist): // a platform that is not here
		case err != nil:
			return nil, fmt.Errorf("blob %s: %w", d, err)
		default:
			out.Blobs = append(out.Blobs, inventory.Blob{Digest: d, Size: fi.Size()})
		}
	}
	return out, errors.Join(damage...)
}

// ImageInventory lists the blobs of one image, of the platforms as Save has them.
func (s *Store) ImageInventory(ctx context.Context, nameOrID string, platforms []ocispec.Platform) (*inventory.Inventory, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	entry, err := find(idx, nameOrID)
	if err != nil {
		return nil, err
	}
	blobs := map[digest.Digest]int64{}
	if _, err := s.saved(ctx, entry, SaveOptions{Platforms: platforms}, blobs); err != nil {
		return nil, fmt.Errorf("image %s: %w", nameOrID, err)
	}
	out := &inventory.Inventory{}
	for d, size := range blobs {
		out.Blobs = append(out.Blobs, inventory.Blob{Digest: d, Size: size})
	}
	return out, nil
}
