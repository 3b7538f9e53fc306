package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
)

// smallBlob is the size up to which the time for a blob is round trips and not
// the line's rate.
const smallBlob = 128 << 10

// Fetch copies blobs into sink, jobs at a time, and returns every failure by
// digest. Each blob is requested from the first of its origins, and from the next
// if that one does not have it.
func Fetch(ctx context.Context, sink Sink, blobs []Wanted, jobs int) map[digest.Digest]error {
	return fetchUntil(ctx, sink, blobs, jobs, len(blobs))
}

// errNotTried is the failure of a blob that was not asked for, as too many others
// had failed.
var errNotTried = errors.New("not tried")

// fetchUntil is Fetch that gives up after most failures.
func fetchUntil(ctx context.Context, sink Sink, blobs []Wanted, jobs, most int) map[digest.Digest]error {
	byDigest := map[digest.Digest]Wanted{}
	var descs []ocispec.Descriptor
	for _, b := range blobs {
		byDigest[b.Digest] = b
		descs = append(descs, b.Descriptor)
	}
	failed := map[digest.Digest]error{}
	var mu sync.Mutex // guards failed
	transfer(descs, jobs, func(d ocispec.Descriptor) {
		mu.Lock()
		enough := len(failed) > 0 && len(failed) >= most
		if enough {
			failed[d.Digest] = errNotTried
		}
		mu.Unlock()
		if enough {
			return
		}
		if err := byDigest[d.Digest].fetch(ctx, sink); err != nil { // the sink's error names the blob
			mu.Lock()
			defer mu.Unlock()
			failed[d.Digest] = err
		}
	})
	return failed
}

// transfer calls do for each of blobs, jobs at a time, largest first.
//
// Largest first keeps the connections busy to the end: 0.91 times the wall time
// of fetching in the order of the manifests, at 30 ms with a limited rate. The
// many small blobs, mostly configs, would then come last, each costing a round
// trip or more with the line idle. So one of the jobs takes the small blobs
// meanwhile.
func transfer(blobs []ocispec.Descriptor, jobs int, do func(ocispec.Descriptor)) {
	q := &queue{blobs: slices.Clone(blobs)}
	slices.SortStableFunc(q.blobs, func(a, b ocispec.Descriptor) int { return cmp.Compare(b.Size, a.Size) })
	var workers sync.WaitGroup
	for n := range min(jobs, len(blobs)) {
		workers.Go(func() {
			for {
				d, ok := q.next(n > 0 && n == jobs-1)
				if !ok {
					return
				}
				do(d)
			}
		})
	}
	workers.Wait()
}

// A queue hands out blobs that are sorted, largest first.
type queue struct {
	mu    sync.Mutex
	blobs []ocispec.Descriptor
}

// next returns the largest blob left. For the worker with small set it returns
// the smallest, as long as that is below smallBlob.
func (q *queue) next(small bool) (d ocispec.Descriptor, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.blobs) - 1
	switch {
	case last < 0:
		return d, false
	case small && q.blobs[last].Size < smallBlob:
		d, q.blobs = q.blobs[last], q.blobs[:last]
	default:
		d, q.blobs = q.blobs[0], q.blobs[1:]
	}
	return d, true
}

// Wanted is a blob to fetch, and the places that have it.
type Wanted struct {
	ocispec.Descriptor
	From []Origin
	// Progress is called with 0 when the blob begins, and with each number of bytes
	// that arrives; it may be nil.
	Progress func(n int)
}

// Origin is a place that has a blob.
type Origin struct {
	Client *Client
	Image  ref.Reference
}

func (b Wanted) fetch(ctx context.Context, sink Sink) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var errs []error
	progress := progressWriter{progress: b.Progress}
	for _, o := range b.From {
		err := sink.PutBlob(ctx, b.Descriptor, func(w io.Writer) error {
			if b.Progress != nil {
				b.Progress(0)
				w = progress.of(w)
			}
			if b.embedded() {
				_, err := w.Write(b.Data)
				return err
			}
			return o.Client.Blob(ctx, o.Image, b.Descriptor, w)
		})
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		// Another repository may allow access that this one refuses. It cannot
		// help when the disk is full or the user has gone.
		if ctx.Err() != nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnauthorized) {
			break
		}
	}
	return oneLine(errs)
}

// embedded reports whether the manifest itself holds the blob, as it may hold a
// small one such as the empty config of an artifact: "data" of the OCI image
// specification's descriptor.
func (b Wanted) embedded() bool {
	return len(b.Data) > 0 && int64(len(b.Data)) == b.Size && digest.FromBytes(b.Data) == b.Digest
}

// progressWriter tells progress of the bytes that are in w, those of earlier
// runs too.
type progressWriter struct {
	w        io.Writer
	progress func(n int)
	told     int64
}

// of begins a blob anew with w.
func (p *progressWriter) of(w io.Writer) *progressWriter {
	p.w = w
	p.tell(0)
	return p
}

// tell tells that w has n bytes.
func (p *progressWriter) tell(n int64) {
	if n != p.told {
		p.progress(int(n - p.told))
		p.told = n
	}
}

// Write implements io.Writer.
func (p *progressWriter) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	p.tell(p.told + int64(n))
	return n, err
}

// Resume implements Resumer.
func (p *progressWriter) Resume() (int64, error) {
	r, ok := p.w.(Resumer)
	if !ok {
		return 0, nil
	}
	n, err := r.Resume()
	p.tell(n)
	return n, err
}

// Restart implements Resumer.
func (p *progressWriter) Restart() error {
	r, ok := p.w.(Resumer)
	if !ok {
		return errors.ErrUnsupported
	}
	p.tell(0)
	return r.Restart()
}
