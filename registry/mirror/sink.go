package mirror

import (
	"context"
	"io"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/remote"
)

// countingSink counts the blobs that are written to it.
type countingSink struct {
	remote.Sink

	mu    sync.Mutex
	blobs map[digest.Digest]bool
	count Count
}

// PutBlob counts desc if write was called: not if the sink had the blob, or
// another build wrote it meanwhile.
func (s *countingSink) PutBlob(ctx context.Context, desc ocispec.Descriptor, write func(io.Writer) error) error {
	written := false
	err := s.Sink.PutBlob(ctx, desc, func(w io.Writer) error {
		written = true
		return write(w)
	})
	if err == nil && written {
		s.note(remote.Wanted{Descriptor: desc})
	}
	return err
}

func (s *countingSink) note(d remote.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blobs == nil {
		s.blobs = map[digest.Digest]bool{}
	}
	if !s.blobs[d.Digest] {
		s.blobs[d.Digest] = true
		s.count.Blobs++
		s.count.Bytes += d.Size
	}
}

func (s *countingSink) fetched(d digest.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blobs[d]
}

func (s *countingSink) total() Count {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// meter adds up the bytes of all transfers for progress.
type meter struct {
	report func(remote.Event)
	total  int64

	mu   sync.Mutex
	done int64
}

func newMeter(report func(remote.Event), blobs []remote.Wanted) *meter {
	m := &meter{report: report}
	for _, b := range blobs {
		m.total += b.Size
	}
	return m
}

// of returns the function that counts the bytes of one blob.
func (m *meter) of(d ocispec.Descriptor) func(int) {
	if m.report == nil {
		return nil
	}
	var got int64 // a blob has one writer at a time
	return func(n int) {
		got += int64(n)
		m.mu.Lock()
		m.done += int64(n)
		done := m.done
		m.mu.Unlock()
		m.report(remote.Event{Op: "fetch", Digest: d.Digest, Size: d.Size, Finished: got >= d.Size, Done: done, Total: m.total})
	}
}
