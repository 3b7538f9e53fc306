package spread

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

type file struct{ *bytes.Reader }

func (file) Close() error { return nil }

func serve(t *testing.T, blobs map[string]string) *Server {
	t.Helper()
	return serveAt(t, blobs, nil)
}

func serveAt(t *testing.T, blobs map[string]string, pace *Throttle) *Server {
	t.Helper()
	s, err := Serve(func(_ context.Context, d string) (io.ReadSeekCloser, error) {
		b, ok := blobs[d]
		if !ok {
			return nil, errors.New("no such blob")
		}
		return file{bytes.NewReader([]byte(b))}, nil
	}, pace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestFetch(t *testing.T) {
	t.Parallel()
	s, other := serve(t, map[string]string{"sha256:a": "hello"}), serve(t, nil)
	p := Peer{"127.0.0.1", s.Offer}
	r, err := p.Fetch(t.Context(), "sha256:a", 5)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	wrong, foreign := p, p
	wrong.Token = other.Offer.Token
	foreign.Certificate = other.Offer.Certificate
	for name, c := range map[string]struct {
		peer   Peer
		digest string
		size   int64
		want   string
	}{
		"another blob":        {p, "sha256:b", 5, "404"},
		"another size":        {p, "sha256:a", 6, "5 bytes, want 6"},
		"another token":       {wrong, "sha256:a", 5, "401"},
		"another certificate": {foreign, "sha256:a", 5, "another machine answers"},
		"a way out":           {p, "../x", 5, "404"},
	} {
		if _, err := c.peer.Fetch(t.Context(), c.digest, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Machines get a blob from each other: the engine sends few copies, whatever the
// number of machines.
func TestTrackerSparesTheEngine(t *testing.T) {
	t.Parallel()
	var tr Tracker
	var mu sync.Mutex
	from := map[string]int{}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			x, err := tr.Next(t.Context(), "d", fmt.Sprint("n", i))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			from[x.From]++
			mu.Unlock()
			x.Done(true)
		})
	}
	wg.Wait()
	if from[""] > copies {
		t.Errorf("the engine sent %d copies: %v", from[""], from)
	}
}

func TestTrackerFallsBackToTheEngine(t *testing.T) {
	t.Parallel()
	var tr Tracker
	next := func(to string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		x, err := tr.Next(ctx, "d", to)
		if err != nil {
			t.Fatal(err)
		}
		x.Done(x.From == "") // no machine reaches another
		return x.From
	}
	for i, want := range []string{"", "n0", "n0", "n0", ""} {
		if got := next("n" + fmt.Sprint(min(i, 1))); got != want {
			t.Errorf("transfer %d came from %q, want %q", i, got, want)
		}
	}
	tr.Mute("n1")
	if got := next("n2"); got != "" {
		t.Errorf("a machine that cannot serve, or failed often, was chosen: %q", got)
	}
}

// A machine whose transfer fails is no holder, and those that wait for it go on.
func TestTrackerWaitsForTransfers(t *testing.T) {
	t.Parallel()
	var tr Tracker
	first, _ := tr.Next(t.Context(), "d", "a")
	second, _ := tr.Next(t.Context(), "d", "b")
	if first.From != "" || second.From != "" {
		t.Fatal(first.From, second.From)
	}
	got := make(chan string)
	go func() {
		x, err := tr.Next(t.Context(), "d", "c")
		if err != nil {
			t.Error(err)
		}
		got <- x.From
	}()
	first.Done(false)
	if from := <-got; from != "" {
		t.Errorf("from %q: nobody has it", from)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tr.Next(ctx, "d", "e"); err == nil {
		t.Error("no error, though the run was over")
	}
	second.Done(true)
	if x, err := tr.Next(t.Context(), "d", "e"); err != nil || x.From != "b" {
		t.Errorf("%+v, %v", x, err)
	}
}

// A machine that serves others keeps to its rate: what is more than one burst
// takes its time. The least time is asserted; a busy machine takes longer.
func TestThrottle(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x", 2*burst)
	s := serveAt(t, map[string]string{"sha256:a": content}, NewThrottle(4*burst))
	begin := time.Now()
	r, err := Peer{"127.0.0.1", s.Offer}.Fetch(t.Context(), "sha256:a", int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil || string(b) != content {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if took := time.Since(begin); took < 200*time.Millisecond { // a quarter of a second for the second burst
		t.Errorf("%d bytes at %d a second came within %v", len(content), 4*burst, took)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	slow := NewThrottle(1).Reader(ctx, strings.NewReader(content))
	if _, err := io.ReadAll(slow); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want one of the context", err)
	}
}
