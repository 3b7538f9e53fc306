package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Streams are the input, the output and the log of a call. Each may be nil.
type Streams struct {
	// Input is sent to the operation until its end or its error, which cancels
	// the call. It may be read for as long as one Read takes after Call has returned.
	Input io.Reader
	// Output gets the output of the operation; an error of Output cancels the call.
	Output io.Writer
	// Log gets the messages of the operation, one line at a time. It must not
	// block: the whole connection waits for it.
	Log func(Log)
}

// cancelGrace is how long Call waits for a cancelled operation to end.
const cancelGrace = 10 * time.Second

// outcome is how a call ended: the peer's words, or err of this side.
type outcome struct {
	body   json.RawMessage
	remote *Error
	err    error
}

// outgoing is a call that waits for its result.
type outgoing struct {
	ended  sync.Once
	result chan outcome // holds one
	output *inbox       // nil without output
	credit *credit      // nil without input
	log    func(Log)
}

func (o *outgoing) finish(r outcome) {
	o.ended.Do(func() {
		o.result <- r
		if o.output != nil {
			o.output.end(errCut)
		}
	})
}

var errCut = errors.New("the output was cut")

// Call asks the peer for an operation and waits for its end. body is sent as
// JSON; its answer is decoded into result, unless that is nil.
//
// The error is an *Error when the operation failed, wraps ErrClosed when the
// connection ended, and is the cause of ctx when ctx ended: the operation was
// told to end then, and was given 10 s for it. A call beyond MaxCalls waits.
func (c *Conn) Call(ctx context.Context, op string, body, result any, s Streams) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the body of %s: %w", op, err)
	}
	id, o, err := c.start(ctx, Message{
		Type: typeCall, Op: op, Body: raw, Input: s.Input != nil, Output: s.Output != nil,
	}, s)
	defer c.forget(id)
	if err != nil {
		return err
	}
	return c.wait(ctx, id, o, result, s)
}

// start sends a call. The ids of calls grow on the wire: one starts at a time.
func (c *Conn) start(ctx context.Context, m Message, s Streams) (uint64, *outgoing, error) {
	select {
	case c.starting <- struct{}{}:
		defer func() { <-c.starting }()
	case <-ctx.Done():
		return 0, nil, context.Cause(ctx)
	}
	id, o := c.register(s)
	m.ID = id
	frame, err := messageFrame(m)
	if err == nil {
		err = c.send(ctx, frame)
	}
	return id, o, err
}

func (c *Conn) register(s Streams) (uint64, *outgoing) {
	o := &outgoing{result: make(chan outcome, 1), log: s.Log}
	c.mu.Lock()
	c.last++
	id := c.last
	if s.Input != nil {
		o.credit = newCredit()
	}
	if s.Output != nil {
		o.output = newInbox(func(n int) {
			_ = c.send(context.Background(), grantFrame(kindGrantOutput, id, n)) // fails when the Conn has ended
		})
	}
	c.outgoing[id] = o
	c.mu.Unlock()
	if err := c.Err(); err != nil { // it ended before the call was registered
		o.finish(outcome{err: err})
	}
	return id, o
}

func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	delete(c.outgoing, id)
	c.mu.Unlock()
}

// wait moves the streams of a call and waits for its result.
func (c *Conn) wait(ctx context.Context, id uint64, o *outgoing, result any, s Streams) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	written := make(chan struct{})
	go func() {
		defer close(written)
		if s.Output == nil {
			return
		}
		if _, err := io.Copy(s.Output, o.output); err != nil && !errors.Is(err, errCut) {
			cancel(fmt.Errorf("write output: %w", err))
		}
	}()
	if s.Input != nil {
		go func() {
			to := &sender{ctx: ctx, conn: c, kind: kindInput, id: id, credit: o.credit}
			_, err := io.CopyBuffer(to, onlyReader{s.Input}, make([]byte, MaxData))
			if err == nil {
				err = to.end()
			}
			if err != nil {
				cancel(fmt.Errorf("send input: %w", err))
			}
		}()
	}
	select {
	case r := <-o.result:
		<-written
		return settle(ctx, r, result)
	case <-ctx.Done():
		err := c.abandon(ctx, id, o)
		<-written
		return err
	}
}

// onlyReader hides a WriteTo, which would choose the size of writes.
type onlyReader struct{ io.Reader }

// settle decodes a result. An output that could not be written is an error of
// the call even when the operation succeeded.
func settle(ctx context.Context, r outcome, result any) error {
	switch {
	case r.err != nil:
		return r.err
	case r.remote != nil:
		return r.remote
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case result == nil || len(r.body) == 0:
		return nil
	}
	if err := json.Unmarshal(r.body, result); err != nil {
		return fmt.Errorf("decode result: %w", err)
	}
	return nil
}

// abandon cancels a call and waits a while for its end.
func (c *Conn) abandon(ctx context.Context, id uint64, o *outgoing) error {
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer stop()
	frame, err := messageFrame(Message{Type: typeCancel, ID: id})
	if err == nil {
		err = c.send(grace, frame)
	}
	if err == nil {
		select {
		case <-o.result:
		case <-grace.Done():
		}
	}
	o.finish(outcome{})
	return context.Cause(ctx)
}
