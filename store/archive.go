package store

import (
	"context"
	"errors"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// SaveOptions are the options of Save.
type SaveOptions struct {
	Platforms []ocispec.Platform // empty: all that the store has
}

// Save writes the images as one tar, an OCI image layout with each blob once.
// Equal images give an equal tar.
func (s *Store) Save(ctx context.Context, w io.Writer, names []string, o SaveOptions) error {
	return errors.ErrUnsupported
}

// Load commits the images of a tar that Save or another tool wrote as an OCI
// image layout, and returns them. Nothing of it is visible when it fails.
func (s *Store) Load(ctx context.Context, r io.Reader) ([]Image, error) {
	return nil, errors.ErrUnsupported
}
