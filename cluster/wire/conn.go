package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Options are how a Conn is made.
type Options struct {
	// Hello introduces this side to the other.
	Hello Hello
	// Ops are the operations that this side serves, by name.
	Ops map[string]Handler
	// HelloTimeout bounds the wait for the peer's hello; 0 is 30 s.
	HelloTimeout time.Duration
}

// A Conn is one end of a connection. It is safe for concurrent use.
type Conn struct {
	ops   map[string]Handler
	peer  Hello
	out   chan []byte // frames to be written
	close func() error

	ended    sync.Once
	done     chan struct{}
	err      error // set before done is closed
	handlers sync.WaitGroup

	slots    chan struct{} // one for each outgoing call in flight
	starting chan struct{} // one for the call that is being started

	mu       sync.Mutex
	last     uint64               // id of the latest outgoing call
	lastSeen uint64               // id of the latest incoming call
	outgoing map[uint64]*outgoing // calls that wait for their result
	incoming map[uint64]*Incoming // calls that are being served
}

// bufferSize is enough to write several small frames at once; data frames pass
// by the buffers. A thousand sessions have a thousand of them.
const bufferSize = 8 << 10

// New begins the protocol over r and w and waits for the peer's hello. ctx
// bounds the wait, and its values and end reach every call that is served:
// with its end the Conn ends. close, which may be nil, ends r and w; it is
// called once, when the Conn ends.
func New(ctx context.Context, r io.Reader, w io.Writer, close func() error, o Options) (*Conn, error) {
	c := &Conn{
		ops: o.Ops, out: make(chan []byte, 16), close: close,
		done: make(chan struct{}), slots: make(chan struct{}, MaxCalls), starting: make(chan struct{}, 1),
		outgoing: map[uint64]*outgoing{}, incoming: map[uint64]*Incoming{},
	}
	hello, err := messageFrame(Message{Type: typeHello, Hello: &o.Hello})
	if err != nil {
		return nil, err
	}
	go c.write(w)
	if err := c.send(ctx, append([]byte(Magic), hello...)); err != nil {
		return nil, c.fail(err)
	}
	br := bufio.NewReaderSize(r, bufferSize)
	got := make(chan error, 1)
	go func() { got <- c.readHello(br) }()
	if o.HelloTimeout == 0 {
		o.HelloTimeout = 30 * time.Second
	}
	timeout := time.NewTimer(o.HelloTimeout)
	defer timeout.Stop()
	select {
	case err = <-got:
	case <-timeout.C:
		err = fmt.Errorf("begin session: no answer within %v", o.HelloTimeout)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, c.fail(err)
	}
	go c.read(ctx, br)
	context.AfterFunc(ctx, func() { c.fail(context.Cause(ctx)) })
	return c, nil
}

func (c *Conn) readHello(r *bufio.Reader) error {
	if err := readMagic(r); err != nil {
		return fmt.Errorf("begin session: %w", err)
	}
	f, err := readFrame(r)
	if err != nil {
		return fmt.Errorf("begin session: %w", unexpected(err))
	}
	if f.kind != kindMessage || f.message.Type != typeHello || f.message.Hello == nil {
		return errors.New("begin session: the peer's first frame is no hello")
	}
	c.peer = *f.message.Hello
	return nil
}

// Peer returns the Hello of the other side.
func (c *Conn) Peer() Hello { return c.peer }

// Done is closed when the Conn has ended; Err says why then.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the Conn ended: ErrClosed, alone after Close or a peer that
// left between two frames, else with the fault. It is nil before.
func (c *Conn) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// Close ends the Conn and all its calls.
func (c *Conn) Close() error {
	c.fail(ErrClosed)
	return nil
}

// Drain waits until the calls that were served have returned, at most d. It
// says whether all have. The Conn has ended before: their contexts are done.
func (c *Conn) Drain(d time.Duration) bool {
	all := make(chan struct{})
	// A call that is being admitted right now is counted before the wait begins;
	// all later ones see that the Conn has ended.
	c.mu.Lock()
	go func() { c.handlers.Wait(); close(all) }()
	c.mu.Unlock()
	select {
	case <-all:
		return true
	case <-time.After(d):
		return false
	}
}

// fail ends the Conn because of err and returns the error it ended with.
func (c *Conn) fail(err error) error {
	c.ended.Do(func() {
		switch {
		case errors.Is(err, io.EOF):
			err = ErrClosed
		case !errors.Is(err, ErrClosed):
			err = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		c.err = err
		close(c.done)
		if c.close != nil {
			_ = c.close() // the Conn ends with err in any case
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, o := range c.outgoing {
			o.finish(outcome{err: err})
		}
		for _, in := range c.incoming {
			in.stop(err)
		}
	})
	return c.err
}

// send queues a frame.
func (c *Conn) send(ctx context.Context, frame []byte) error {
	select {
	case <-c.done:
		return c.err
	default:
	}
	select {
	case c.out <- frame:
		return nil
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write writes the queued frames, and flushes when there is none.
func (c *Conn) write(w io.Writer) {
	bw := bufio.NewWriterSize(w, bufferSize)
	for {
		var f []byte
		select {
		case f = <-c.out:
		case <-c.done:
			return
		}
		_, err := bw.Write(f)
		if err == nil && len(c.out) == 0 {
			err = bw.Flush()
		}
		if err != nil {
			c.fail(fmt.Errorf("write: %w", err))
			return
		}
	}
}

// read takes the peer's frames until the Conn ends.
func (c *Conn) read(ctx context.Context, r *bufio.Reader) {
	for {
		f, err := readFrame(r)
		if err == nil {
			err = c.take(ctx, f)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// take acts on one frame; an error is a fault of the peer.
func (c *Conn) take(ctx context.Context, f frame) error {
	switch f.kind {
	case kindMessage:
		return c.message(ctx, f.message)
	case kindInput, kindGrantOutput:
		c.mu.Lock()
		in, known := c.incoming[f.id], f.id <= c.lastSeen
		c.mu.Unlock()
		switch {
		case in != nil && f.kind == kindInput && in.input != nil:
			return in.input.put(f.data)
		case in != nil && f.kind == kindGrantOutput && in.output != nil:
			return in.output.credit.add(f.count)
		case in != nil || !known || f.id == 0:
			return fmt.Errorf("frame of kind %d for call %d, which has no such stream", f.kind, f.id)
		}
	case kindOutput, kindGrantInput:
		c.mu.Lock()
		o, known := c.outgoing[f.id], f.id <= c.last
		c.mu.Unlock()
		switch {
		case o != nil && f.kind == kindOutput && o.output != nil:
			return o.output.put(f.data)
		case o != nil && f.kind == kindGrantInput && o.credit != nil:
			return o.credit.add(f.count)
		case o != nil || !known || f.id == 0:
			return fmt.Errorf("frame of kind %d for call %d, which has no such stream", f.kind, f.id)
		}
	}
	return nil // late: the call has ended here, and the peer did not know yet
}

func (c *Conn) message(ctx context.Context, m Message) error {
	switch m.Type {
	case typeCall:
		return c.begin(ctx, m)
	case typeCancel:
		c.mu.Lock()
		in := c.incoming[m.ID]
		c.mu.Unlock()
		if in != nil {
			in.stop(context.Canceled)
		}
		return nil
	case typeLog, typeResult:
		c.mu.Lock()
		o, known := c.outgoing[m.ID], m.ID <= c.last && m.ID > 0
		c.mu.Unlock()
		switch {
		case o == nil && !known:
			return fmt.Errorf("%s for call %d, which was not made", m.Type, m.ID)
		case o == nil:
			return nil
		case m.Type == typeResult:
			o.finish(outcome{body: m.Body, remote: m.Error})
		case m.Log != nil && o.log != nil:
			o.log(*m.Log)
		}
		return nil
	}
	return fmt.Errorf("message of type %q", m.Type)
}
