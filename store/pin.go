package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
)

const pinPrefix = "pin-"

// Pin keeps layers from prune, in any process, until release is called or this
// process ends: it is for a server that reads them for long. Unlike Hold it
// does not keep prune from the rest. The error wraps ErrNotFound when a layer
// is not here.
func (s *Store) Pin(ctx context.Context, ids []digest.Digest) (release func() error, err error) {
	if err := s.makeDirs(); err != nil {
		return nil, fmt.Errorf("pin layers: %w", err)
	}
	shared, err := s.lock(ctx, "store", false) // prune sees the pin, or is done before the layers are looked for
	if err != nil {
		return nil, fmt.Errorf("pin layers: %w", err)
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	var b strings.Builder
	for _, id := range ids {
		if !s.hasLayer(id) && !s.IsUnwritten(id) {
			return nil, fmt.Errorf("pin layer %s: %w", id, ErrNotFound)
		}
		b.WriteString(id.String() + "\n")
	}
	f, err := s.tempFile(ctx, strings.TrimSuffix(pinPrefix, "-"))
	if err != nil {
		return nil, fmt.Errorf("pin layers: %w", err)
	}
	if _, err := f.WriteString(b.String()); err != nil {
		return nil, fmt.Errorf("pin layers: %w", errors.Join(err, discard(f)))
	}
	return func() error { return discard(f) }, nil
}

// pinned returns the layers of all pins. The caller holds the lock that keeps
// new ones away, and has swept those of the dead.
func (s *Store) pinned() (map[digest.Digest]bool, error) {
	entries, err := os.ReadDir(s.path("tmp"))
	if err != nil {
		return nil, err
	}
	out := map[digest.Digest]bool{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), pinPrefix) {
			continue
		}
		f, err := os.Open(s.path("tmp", e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		for id := range strings.SplitSeq(string(b), "\n") {
			out[digest.Digest(id)] = true
		}
	}
	return out, nil
}
