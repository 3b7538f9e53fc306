package mirror

import (
	"context"
	"io"
	"maps"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/remote"
)

// A Ledger is shared by the runs of one piece of work, so that each of their results
// counts the blobs that it was the first to need, whichever run copied them. The
// runs come one after another. The zero value is empty.
type Ledger struct {
	copied  map[digest.Digest]int64 // bytes
	counted map[digest.Digest]bool  // in the Fetched of a run
}

// count adds the blobs of whole to the counts, each once: those that a run has
// copied and none has counted are fetched. Blobs that belong to no whole image,
// since a blob beside them failed, are fetched, too.
func (l *Ledger) count(whole []ocispec.Descriptor, copied map[digest.Digest]int64, r *Result) {
	fetch := func(d digest.Digest, size int64) {
		l.counted[d] = true
		r.Fetched.Blobs++
		r.Fetched.Bytes += size
	}
	seen := map[digest.Digest]bool{}
	for _, d := range whole {
		if seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		if _, ok := l.copied[d.Digest]; ok && !l.counted[d.Digest] {
			fetch(d.Digest, d.Size)
		} else {
			r.Reused.Blobs++
			r.Reused.Bytes += d.Size
		}
	}
	for d, size := range copied {
		if !l.counted[d] {
			fetch(d, size)
		}
	}
}

// note adds the blobs that a run copied.
func (l *Ledger) note(copied map[digest.Digest]int64) {
	if l.copied == nil {
		l.copied, l.counted = map[digest.Digest]int64{}, map[digest.Digest]bool{}
	}
	maps.Copy(l.copied, copied)
}

// countingSink knows the blobs that are written to it.
type countingSink struct {
	remote.Sink

	mu    sync.Mutex
	blobs map[digest.Digest]int64 // bytes
}

// PutBlob notes desc if write was called: not if the sink had the blob, or
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
		s.blobs = map[digest.Digest]int64{}
	}
	s.blobs[d.Digest] = d.Size
}

func (s *countingSink) copied() map[digest.Digest]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.blobs)
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

// of returns the function that counts the bytes of one blob. Of several images that
// have it the first is named.
func (m *meter) of(d remote.Wanted) func(int) {
	if m.report == nil {
		return nil
	}
	var reference string
	if len(d.From) > 0 {
		reference = d.From[0].Image.String()
	}
	var got int64 // a blob has one writer at a time
	return func(n int) {
		got += int64(n)
		m.mu.Lock()
		m.done += int64(n)
		done := m.done
		m.mu.Unlock()
		m.report(remote.Event{Op: "fetch", Reference: reference, Digest: d.Digest, Size: d.Size, Finished: got >= d.Size, Done: done, Total: m.total})
	}
}
