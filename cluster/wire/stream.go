package wire

import (
	"context"
	"errors"
	"io"
	"sync"
)

// An inbox holds the bytes of a stream between the connection and their reader.
type inbox struct {
	grant func(n int) // lets the peer send n further bytes

	mu     sync.Mutex
	filled sync.Cond
	chunks [][]byte
	held   int // bytes in chunks
	read   int // bytes read and not granted yet
	err    error
}

func newInbox(grant func(n int)) *inbox {
	in := &inbox{grant: grant}
	in.filled.L = &in.mu
	return in
}

var (
	errWindow   = errors.New("the peer sent more of a stream than it was allowed")
	errAfterEnd = errors.New("the peer sent data after the end of a stream")
)

// put adds bytes that the connection has received; no bytes mean the end.
func (in *inbox) put(b []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case errors.Is(in.err, io.EOF):
		return errAfterEnd
	case in.err != nil: // nobody reads on
		return nil
	case len(b) == 0:
		in.err = io.EOF
	case in.held+in.read+len(b) > Window:
		return errWindow
	default:
		in.chunks, in.held = append(in.chunks, b), in.held+len(b)
	}
	in.filled.Broadcast()
	return nil
}

// end makes every further Read fail with err, unless the stream has ended.
func (in *inbox) end(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.err == nil {
		in.err, in.chunks, in.held = err, nil, 0
	}
	in.filled.Broadcast()
}

func (in *inbox) Read(p []byte) (int, error) {
	n, grant, err := in.take(p)
	if grant > 0 {
		in.grant(grant)
	}
	return n, err
}

func (in *inbox) take(p []byte) (n, grant int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.chunks) == 0 && in.err == nil && len(p) > 0 {
		in.filled.Wait()
	}
	if len(in.chunks) == 0 {
		return 0, 0, in.err
	}
	n = copy(p, in.chunks[0])
	if in.chunks[0] = in.chunks[0][n:]; len(in.chunks[0]) == 0 {
		in.chunks = in.chunks[1:]
	}
	in.held, in.read = in.held-n, in.read+n
	if in.read >= Window/4 {
		grant, in.read = in.read, 0
	}
	return n, grant, nil
}

// A credit counts the bytes that may still be sent of a stream.
type credit struct {
	mu    sync.Mutex
	n     int
	added chan struct{} // holds a token when n has grown
}

func newCredit() *credit { return &credit{n: Window, added: make(chan struct{}, 1)} }

// add grants n bytes. More than a window is the peer's fault.
func (c *credit) add(n uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > Window || c.n+int(n) > Window {
		return errors.New("the peer granted more than a window")
	}
	c.n += int(n)
	select {
	case c.added <- struct{}{}:
	default:
	}
	return nil
}

// take waits until bytes may be sent and returns how many, at most want.
func (c *credit) take(ctx context.Context, want int) (int, error) {
	for {
		c.mu.Lock()
		n := min(c.n, want)
		c.n -= n
		c.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-c.added:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// A sender is the writing end of a stream. One goroutine at a time writes.
type sender struct {
	ctx    context.Context // of the call: its end ends every Write
	conn   *Conn
	kind   byte
	id     uint64
	credit *credit
}

func (s *sender) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := s.credit.take(s.ctx, min(len(p)-done, MaxData))
		if err != nil {
			return done, err
		}
		if err := s.conn.send(s.ctx, dataFrame(s.kind, s.id, p[done:done+n])); err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// end tells the peer that the stream is whole.
func (s *sender) end() error {
	return s.conn.send(s.ctx, dataFrame(s.kind, s.id, nil))
}
