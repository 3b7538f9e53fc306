package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/archive"
	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/store"
)

// Without returns the blobs of all bases: of an image of s, of the platforms given
// or all; else of a file, an inventory or an archive that Save wrote. A base that
// is neither an image nor a file is an error that wraps store.ErrNotFound.
func Without(ctx context.Context, s *store.Store, bases []string, platforms []ocispec.Platform) (inventory.Set, error) {
	set := inventory.Set{}
	for _, base := range bases {
		v, err := s.ImageInventory(ctx, base, platforms)
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			fromFile, fileErr := fileInventory(ctx, base)
			if !errors.Is(fileErr, fs.ErrNotExist) {
				v, err = fromFile, fileErr
			}
		}
		if err != nil {
			return nil, fmt.Errorf("without %s: %w", base, err)
		}
		set.Add(v)
	}
	return set, nil
}

// fileInventory reads an inventory, or the list of an archive's blobs.
func fileInventory(ctx context.Context, name string) (v *inventory.Inventory, err error) {
	err = archive.Read([]string{name}, archive.ReadOptions{}, func(in io.Reader) error {
		r := bufio.NewReaderSize(in, 128<<10)
		head, err := r.Peek(inventory.HeadSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if inventory.Is(head) {
			v, err = inventory.Read(r)
		} else {
			v, err = store.ReadArchiveInventory(ctx, r)
		}
		return err
	})
	return v, err
}
