package store

import (
	"context"
	"errors"
)

// Garbage is something on disk that no image needs.
type Garbage struct {
	Kind string // "blob", "layer", "temporary" or "cache"
	Path string
	Size int64 // bytes that its removal frees
}

// Pruned is what prune takes, or took.
type Pruned struct {
	Items []Garbage // by kind, then path
	Size  int64     // bytes
}

// PruneOptions are the options of Prune.
type PruneOptions struct {
	DryRun bool // only say what would go
	Cache  bool // empty the build's cache too
}

// Prune removes blobs and layers that no image needs and what dead processes
// left. While another process writes to the store, only the latter: the result
// is then returned together with an error that wraps ErrBusy.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (*Pruned, error) {
	return nil, errors.ErrUnsupported
}
