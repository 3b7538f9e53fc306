package spread

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Bounds of a Tracker.
const (
	// copies is how often the engine sends a blob while machines can bring it to
	// each other.
	copies = 2
	// uploads is how many blobs a machine serves at once.
	uploads = 2
	// patience is how many failures make a machine one that cannot serve, or
	// cannot fetch.
	patience = 3
)

// A Tracker knows which machine has which blob and says where the next one gets
// it. It is safe for concurrent use. The zero value is ready.
type Tracker struct {
	mu      sync.Mutex
	blobs   map[string]*blob
	load    map[string]int  // by machine: the transfers that it serves now
	faults  map[string]int  // by machine: the failures in which it took part
	changed chan struct{}   // closed at every change
	mute    map[string]bool // machines that serve nothing
}

type blob struct {
	holders []string
	sent    int // by the engine, those on their way included
	moving  int // transfers on their way, from whomever
}

func (t *Tracker) blob(digest string) *blob {
	if t.blobs == nil {
		t.blobs, t.load, t.faults, t.mute = map[string]*blob{}, map[string]int{}, map[string]int{}, map[string]bool{}
	}
	b := t.blobs[digest]
	if b == nil {
		b = &blob{}
		t.blobs[digest] = b
	}
	return b
}

// wake tells all that wait; the caller holds mu.
func (t *Tracker) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// Has tells that a machine has the blob.
func (t *Tracker) Has(digest, machine string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b := t.blob(digest); !slices.Contains(b.holders, machine) {
		b.holders = append(b.holders, machine)
	}
	t.wake()
}

// Mute tells that a machine can serve nothing.
func (t *Tracker) Mute(machine string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blob("")
	t.mute[machine] = true
	t.wake()
}

// A Transfer is one blob on its way to one machine.
type Transfer struct {
	// From is the machine that serves it; "" is the engine.
	From string

	t          *Tracker
	digest, to string
}

// Next waits until the machine may get the blob and says from where. Every
// Transfer is ended with Done.
func (t *Tracker) Next(ctx context.Context, digest, to string) (*Transfer, error) {
	for {
		t.mu.Lock()
		if from, ok := t.choose(digest, to); ok {
			b := t.blob(digest)
			b.moving++
			if from == "" {
				b.sent++
			} else {
				t.load[from]++
			}
			t.mu.Unlock()
			return &Transfer{From: from, t: t, digest: digest, to: to}, nil
		}
		if t.changed == nil {
			t.changed = make(chan struct{})
		}
		changed := t.changed
		t.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// choose prefers the idlest holder, then the engine while it has sent few
// copies; else to waits for a holder. The caller holds mu.
func (t *Tracker) choose(digest, to string) (string, bool) {
	b := t.blob(digest)
	if t.faults[to] >= patience {
		return "", true
	}
	var can []string
	for _, h := range b.holders {
		if h != to && !t.mute[h] && t.faults[h] < patience {
			can = append(can, h)
		}
	}
	free := slices.DeleteFunc(slices.Clone(can), func(h string) bool { return t.load[h] >= uploads })
	if len(free) > 0 {
		return slices.MinFunc(free, func(x, y string) int { return cmp.Compare(t.load[x], t.load[y]) }), true
	}
	return "", b.sent < copies || len(can) == 0 && b.moving == 0
}

// Done ends the transfer. After a failure the machine asks again with Next.
func (x *Transfer) Done(ok bool) {
	t := x.t
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.blob(x.digest)
	b.moving--
	switch {
	case ok && !slices.Contains(b.holders, x.to):
		b.holders = append(b.holders, x.to)
	case !ok && x.From == "":
		b.sent--
	case !ok:
		t.faults[x.From]++
		t.faults[x.to]++
	}
	if x.From != "" {
		t.load[x.From]--
	}
	t.wake()
}
