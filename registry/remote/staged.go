package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A Staged keeps the blobs that are written to it in memory, and reads the others
// from Sink. It is for manifests and configs that Sink gets later, with Flush, or
// never.
type Staged struct {
	Sink
	Limit int64 // the most bytes of all blobs written; 0 is without limit

	mu    sync.Mutex
	blobs map[digest.Digest][]byte
	order []ocispec.Descriptor
	size  int64
}

func (s *Staged) get(d digest.Digest) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[d]
}

// HasBlob implements Sink.
func (s *Staged) HasBlob(ctx context.Context, d digest.Digest) (bool, error) {
	if s.get(d) != nil {
		return true, nil
	}
	return s.Sink.HasBlob(ctx, d)
}

// ReadBlob implements Sink.
func (s *Staged) ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error) {
	if b := s.get(d); b != nil {
		return b, nil
	}
	return s.Sink.ReadBlob(ctx, d, limit)
}

// PutBlob implements Sink. Two callers may write the same blob at a time; one
// counts.
func (s *Staged) PutBlob(ctx context.Context, desc ocispec.Descriptor, write func(io.Writer) error) error {
	if has, err := s.HasBlob(ctx, desc.Digest); has || err != nil {
		return err
	}
	if err := s.reserve(desc.Size); err != nil {
		return fmt.Errorf("blob %s: %w", desc.Digest, err)
	}
	var w capped
	w.limit = desc.Size
	if err := write(&w); err != nil {
		return err
	}
	if int64(len(w.b)) != desc.Size || digest.FromBytes(w.b) != desc.Digest {
		return ErrDigest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blobs == nil {
		s.blobs = map[digest.Digest][]byte{}
	}
	if s.blobs[desc.Digest] == nil {
		s.blobs[desc.Digest] = w.b
		s.order = append(s.order, desc)
	}
	return nil
}

// reserve counts bytes against Limit.
func (s *Staged) reserve(bytes int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Limit > 0 && (bytes > s.Limit || s.size > s.Limit-bytes) {
		return fmt.Errorf("the manifests have more than %d bytes: %w", s.Limit, ErrUnsupported)
	}
	s.size += bytes
	return nil
}

// Flush writes the blobs to Sink, in the order of their coming.
func (s *Staged) Flush(ctx context.Context) error {
	s.mu.Lock()
	order := s.order
	s.mu.Unlock()
	for _, d := range order {
		b := s.get(d.Digest)
		err := s.Sink.PutBlob(ctx, d, func(w io.Writer) error {
			_, err := io.Copy(w, bytes.NewReader(b))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// capped collects at most limit bytes.
type capped struct {
	b     []byte
	limit int64
}

func (c *capped) Write(p []byte) (int, error) {
	if int64(len(c.b)+len(p)) > c.limit {
		return 0, ErrDigest
	}
	c.b = append(c.b, p...)
	return len(p), nil
}
