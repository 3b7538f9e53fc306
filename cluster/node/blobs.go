package node

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/cluster/spread"
	"github.com/clusterimage/sealer/store"
)

// store returns the machine's store, which stays open until Close.
func (s *Server) store() (*store.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blobs == nil {
		b, err := store.Open(s.o.Store, store.Options{})
		if err != nil {
			return nil, err
		}
		s.blobs = b
	}
	return s.blobs, nil
}

// PutBlob writes a blob into the machine's store.
func (s *Server) PutBlob(ctx context.Context, d digest.Digest, size int64, r io.Reader) error {
	b, err := s.store()
	if err != nil {
		return err
	}
	return b.PutBlob(ctx, ocispec.Descriptor{Digest: d, Size: size}, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// GetBlob writes a blob of the machine's store to w.
func (s *Server) GetBlob(ctx context.Context, d digest.Digest, w io.Writer) error {
	b, err := s.store()
	if err != nil {
		return err
	}
	r, err := b.OpenBlob(ctx, d)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	return errors.Join(err, r.Close())
}

// Serve lets other machines fetch blobs of the machine's store until Close.
func (s *Server) Serve(q ServeRequest) (spread.Offer, error) {
	b, err := s.store()
	if err != nil {
		return spread.Offer{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peers == nil {
		s.peers, err = spread.Serve(func(ctx context.Context, text string) (io.ReadSeekCloser, error) {
			d, err := digest.Parse(text)
			if err != nil {
				return nil, err
			}
			return b.OpenBlob(ctx, d)
		}, spread.NewThrottle(q.Rate))
		if err != nil {
			return spread.Offer{}, fmt.Errorf("serve other machines: %w", err)
		}
	}
	return s.peers.Offer, nil
}

// Fetch brings a blob from another machine into the machine's store, which
// compares its digest.
func (s *Server) Fetch(ctx context.Context, q FetchRequest) error {
	r, err := q.Peer.Fetch(ctx, q.Digest.String(), q.Size)
	if err != nil {
		return err
	}
	return errors.Join(s.PutBlob(ctx, q.Digest, q.Size, r), r.Close())
}
