package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A Handler serves one operation. Its result is sent as JSON; an error that is
// an *Error travels as it is, any other as its text with CodeFailed.
// Its context ends when the caller cancels or the connection ends.
type Handler func(ctx context.Context, in *Incoming) (any, error)

// Incoming is a call to be served.
type Incoming struct {
	Op   string
	Body json.RawMessage

	conn   *Conn
	id     uint64
	cancel context.CancelCauseFunc
	input  *inbox  // nil without input
	output *sender // nil without output
}

// Decode decodes the body into v; its error is an *Error with CodeBadBody.
func (in *Incoming) Decode(v any) error {
	if err := json.Unmarshal(in.Body, v); err != nil {
		return &Error{Code: CodeBadBody, Message: fmt.Sprintf("%s: decode the call: %v", in.Op, err)}
	}
	return nil
}

// Input returns the stream that the caller sends; an empty one without any.
// A Read fails when the caller cancels: io.EOF says that the stream is whole.
func (in *Incoming) Input() io.Reader {
	if in.input == nil {
		return eof{}
	}
	return in.input
}

// Output returns the stream to the caller; without one it discards.
// One goroutine at a time writes to it.
func (in *Incoming) Output() io.Writer {
	if in.output == nil {
		return io.Discard
	}
	return in.output
}

// Log tells the caller a line. It is safe for concurrent use until the handler
// returns.
func (in *Incoming) Log(ctx context.Context, l Log) error {
	frame, err := messageFrame(Message{Type: typeLog, ID: in.id, Log: &l})
	if err != nil {
		return err
	}
	return in.conn.send(ctx, frame)
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

func (in *Incoming) stop(err error) {
	in.cancel(err)
	if in.input != nil {
		in.input.end(err)
	}
}

// begin serves a call in a goroutine of its own.
func (c *Conn) begin(ctx context.Context, m Message) error {
	ctx, cancel := context.WithCancelCause(ctx)
	in := &Incoming{Op: m.Op, Body: m.Body, conn: c, id: m.ID, cancel: cancel}
	if m.Input {
		in.input = newInbox(func(n int) {
			_ = c.send(ctx, grantFrame(kindGrantInput, m.ID, n)) // fails when nobody waits for it
		})
	}
	if m.Output {
		in.output = &sender{ctx: ctx, conn: c, kind: kindOutput, id: m.ID, credit: newCredit()}
	}
	if err := c.admit(in); err != nil {
		cancel(err)
		return err
	}
	go func() {
		defer c.handlers.Done()
		defer cancel(nil)
		c.serve(ctx, in)
	}()
	return nil
}

// admit registers a call of the peer; its ids grow, and few are in flight.
func (c *Conn) admit(in *Incoming) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case in.id <= c.lastSeen:
		return fmt.Errorf("call %d after call %d", in.id, c.lastSeen)
	case len(c.incoming) >= MaxCalls:
		return fmt.Errorf("more than %d calls at once", MaxCalls)
	case c.Err() != nil:
		return c.err
	}
	c.lastSeen = in.id
	c.incoming[in.id] = in
	c.handlers.Add(1)
	return nil
}

func (c *Conn) serve(ctx context.Context, in *Incoming) {
	m := Message{Type: typeResult, ID: in.id}
	var result any
	err := error(&Error{Code: CodeUnknownOp, Message: fmt.Sprintf("there is no operation %q", in.Op)})
	if h := c.ops[in.Op]; h != nil {
		result, err = h(ctx, in)
	}
	if in.output != nil { // whole up to here, even of an operation that failed
		if endErr := in.output.end(); err == nil {
			err = endErr
		}
	}
	if err == nil {
		m.Body, err = json.Marshal(result)
	}
	if err != nil {
		m.Error = remoteError(ctx, err)
	}
	frame, err := messageFrame(m)
	if err != nil { // too large
		frame, err = messageFrame(Message{Type: typeResult, ID: in.id, Error: remoteError(ctx, err)})
	}
	// The slot is free before the peer hears of the end and sends the next call.
	c.mu.Lock()
	delete(c.incoming, in.id)
	c.mu.Unlock()
	if err == nil {
		_ = c.send(context.WithoutCancel(ctx), frame) // fails when the Conn has ended
	}
}

// remoteError returns err in the form that is sent to the other side.
func remoteError(ctx context.Context, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return &Error{Code: e.Code, Message: err.Error(), Detail: e.Detail}
	case ctx.Err() != nil:
		return &Error{Code: CodeCancelled, Message: err.Error()}
	}
	return &Error{Code: CodeFailed, Message: err.Error()}
}
