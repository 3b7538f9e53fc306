package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// pair connects two Conns; ops are served by the second.
func pair(t *testing.T, ops map[string]Handler) (*Conn, *Conn) {
	t.Helper()
	a, b := net.Pipe()
	far := make(chan *Conn, 1)
	go func() {
		c, err := New(t.Context(), b, b, b.Close, Options{Hello: Hello{Hostname: "far"}, Ops: ops})
		if err != nil {
			t.Error(err)
		}
		far <- c
	}()
	near, err := New(t.Context(), a, a, a.Close, Options{Hello: Hello{Hostname: "near"}, Ops: ops})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	return near, <-far
}

type sum struct{ A, B int }

func testOps() map[string]Handler {
	return map[string]Handler{
		"add": func(ctx context.Context, in *Incoming) (any, error) {
			var s sum
			if err := in.Decode(&s); err != nil {
				return nil, err
			}
			return s.A + s.B, in.Log(ctx, Log{Text: fmt.Sprint("adding to ", s.A)})
		},
		"echo": func(_ context.Context, in *Incoming) (any, error) {
			return io.Copy(in.Output(), in.Input())
		},
		"hang": func(ctx context.Context, _ *Incoming) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		},
		"fail": func(_ context.Context, in *Incoming) (any, error) {
			fmt.Fprint(in.Output(), "before the end")
			return nil, fmt.Errorf("outer: %w", &Error{Code: "mine", Message: "inner"})
		},
		"large": func(context.Context, *Incoming) (any, error) {
			return strings.Repeat("x", MaxMessage), nil
		},
	}
}

func TestCallsBothWays(t *testing.T) {
	t.Parallel()
	near, far := pair(t, testOps())
	if near.Peer().Hostname != "far" || far.Peer().Hostname != "near" {
		t.Fatalf("hellos: %+v, %+v", near.Peer(), far.Peer())
	}
	var wg sync.WaitGroup
	for i := range 3 * MaxCalls {
		for _, c := range []*Conn{near, far} {
			wg.Go(func() {
				var got int
				var lines []string
				err := c.Call(t.Context(), "add", sum{i, 1}, &got, Streams{Log: func(l Log) { lines = append(lines, l.Text) }})
				if err != nil || got != i+1 || len(lines) != 1 {
					t.Errorf("add %d: %d, %q, %v", i, got, lines, err)
				}
			})
		}
	}
	wg.Wait()
}

func TestStreamsLargerThanTheWindow(t *testing.T) {
	t.Parallel()
	near, _ := pair(t, testOps())
	want := bytes.Repeat([]byte("0123456789abcdef"), 5*Window/16)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var got bytes.Buffer
			var n int
			err := near.Call(t.Context(), "echo", nil, &n, Streams{Input: bytes.NewReader(want), Output: &got})
			if err != nil || n != len(want) || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("echo: %d of %d bytes, %v", got.Len(), len(want), err)
			}
		})
	}
	wg.Wait()
}

func TestCallErrors(t *testing.T) {
	t.Parallel()
	near, _ := pair(t, testOps())
	var out bytes.Buffer
	for op, want := range map[string]*Error{
		"fail":  {Code: "mine", Message: "outer: inner"},
		"none":  {Code: CodeUnknownOp, Message: `there is no operation "none"`},
		"add":   {Code: CodeBadBody, Message: "add: decode"},
		"large": {Code: CodeFailed, Message: "at most 8388608 go into a message"},
	} {
		s := Streams{}
		if op == "fail" {
			s.Output = &out
		}
		var got *Error
		err := near.Call(t.Context(), op, "text", nil, s)
		if !errors.As(err, &got) || got.Code != want.Code || !strings.Contains(got.Message, want.Message) {
			t.Errorf("%s: %v, want %v", op, err, want)
		}
	}
	if out.String() != "before the end" {
		t.Errorf("output of a failed call: %q", out.String())
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	near, far := pair(t, testOps())
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if err := near.Call(ctx, "hang", nil, nil, Streams{}); !errors.Is(err, stopped) {
		t.Errorf("cancelled call: %v", err)
	}
	var n int
	if err := near.Call(t.Context(), "add", sum{1, 2}, &n, Streams{}); err != nil || n != 3 {
		t.Errorf("after a cancelled call: %d, %v", n, err)
	}
	far.mu.Lock()
	defer far.mu.Unlock()
	if len(far.incoming) > 0 {
		t.Errorf("%d calls go on", len(far.incoming))
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("disk gone") }

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("pipe gone") }

func TestBrokenStreamsCancel(t *testing.T) {
	t.Parallel()
	near, _ := pair(t, testOps())
	err := near.Call(t.Context(), "echo", nil, nil, Streams{Input: brokenReader{}})
	if err == nil || !strings.Contains(err.Error(), "disk gone") {
		t.Errorf("broken input: %v", err)
	}
	err = near.Call(t.Context(), "echo", nil, nil, Streams{Input: strings.NewReader("x"), Output: brokenWriter{}})
	if err == nil || !strings.Contains(err.Error(), "pipe gone") {
		t.Errorf("broken output: %v", err)
	}
}

func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	near, far := pair(t, testOps())
	result := make(chan error, 1)
	go func() { result <- near.Call(t.Context(), "hang", nil, nil, Streams{}) }()
	for {
		far.mu.Lock()
		n := len(far.incoming)
		far.mu.Unlock()
		if n == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	near.Close()
	if err := <-result; !errors.Is(err, ErrClosed) {
		t.Errorf("call over a closed connection: %v", err)
	}
	<-far.Done()
	if !far.Drain(10 * time.Second) {
		t.Error("the operation goes on without its connection")
	}
	if err := near.Call(t.Context(), "add", sum{}, nil, Streams{}); !errors.Is(err, ErrClosed) {
		t.Errorf("call after the end: %v", err)
	}
}

// The process of a Conn is told to end while its peer goes on calling.
func TestDrainBesideCalls(t *testing.T) {
	t.Parallel()
	for range 50 {
		a, b := net.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		made := make(chan *Conn, 1)
		go func() {
			near, err := New(t.Context(), a, a, a.Close, Options{})
			if err != nil {
				t.Error(err)
			}
			made <- near
		}()
		far, err := New(ctx, b, b, b.Close, Options{Ops: testOps()})
		if err != nil {
			t.Fatal(err)
		}
		near := <-made
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() { _ = near.Call(t.Context(), "hang", nil, nil, Streams{}) })
		}
		go cancel()
		<-far.Done()
		if !far.Drain(10 * time.Second) {
			t.Error("an operation goes on")
		}
		callers.Wait()
		near.Close()
	}
}

// peer writes raw bytes to a Conn that serves the test's operations and returns
// why the Conn ended.
func peer(t *testing.T, raw []byte) error {
	t.Helper()
	c, err := New(t.Context(), bytes.NewReader(raw), io.Discard, nil, Options{Ops: testOps()})
	if err != nil {
		return err
	}
	<-c.Done()
	if !c.Drain(10 * time.Second) {
		t.Error("an operation goes on")
	}
	return c.Err()
}

func hello(t testing.TB) []byte {
	t.Helper()
	f, err := messageFrame(Message{Type: typeHello, Hello: &Hello{}})
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte(Magic), f...)
}

func message(t testing.TB, m Message) []byte {
	t.Helper()
	f, err := messageFrame(m)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestHostilePeers(t *testing.T) {
	t.Parallel()
	echo := message(t, Message{Type: typeCall, ID: 1, Op: "hang", Input: true})
	flood := bytes.Repeat(dataFrame(kindInput, 1, make([]byte, MaxData)), Window/MaxData+1)
	many := []byte{}
	for i := range MaxCalls + 1 {
		many = append(many, message(t, Message{Type: typeCall, ID: uint64(i + 1), Op: "hang"})...)
	}
	for name, tt := range map[string]struct {
		raw  []byte
		want string
	}{
		"banner":        {[]byte("Welcome to\nn1!"), `began with "Welcome to n1!"`},
		"short banner":  {[]byte("hi"), `began with "hi"`},
		"nothing":       {nil, "said nothing"},
		"no hello":      {append([]byte(Magic), echo...), "no hello"},
		"cut":           {append(hello(t), 0, 0, 0, 9, 0, '{'), "cut after 1 of 8 bytes"},
		"not JSON":      {append(hello(t), 0, 0, 0, 3, 0, '{', '!'), "message"},
		"kind":          {append(hello(t), 0, 0, 0, 1, 9), "frame of kind 9"},
		"empty":         {append(hello(t), 0, 0, 0, 0, 0), "with 0 bytes"},
		"long message":  {append(hello(t), binary.BigEndian.AppendUint32(nil, MaxMessage+2)...), "cut"},
		"long data":     {append(hello(t), 0, 1, 0, 0, 1), "frame of kind 1 with 65536 bytes"},
		"type":          {append(hello(t), message(t, Message{Type: "dance"})...), `type "dance"`},
		"second hello":  {append(hello(t), message(t, Message{Type: typeHello})...), `type "hello"`},
		"result":        {append(hello(t), message(t, Message{Type: typeResult, ID: 7})...), "call 7, which was not made"},
		"zero call":     {append(hello(t), message(t, Message{Type: typeCall, Op: "add"})...), "call 0 after call 0"},
		"same call":     {append(append(hello(t), echo...), echo...), "call 1 after call 1"},
		"calls":         {append(hello(t), many...), "more than 64 calls"},
		"unknown data":  {append(hello(t), dataFrame(kindInput, 3, []byte("x"))...), "no such stream"},
		"foreign data":  {append(hello(t), dataFrame(kindOutput, 3, []byte("x"))...), "no such stream"},
		"flood":         {append(append(hello(t), echo...), flood...), "more of a stream than it was allowed"},
		"after the end": {append(append(append(hello(t), echo...), dataFrame(kindInput, 1, nil)...), dataFrame(kindInput, 1, []byte("x"))...), "after the end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw := tt.raw
			if name == "long message" {
				raw = append(raw, 0)
				raw[len(raw)-1] = kindMessage
				tt.want = "frame of kind 0 with 8388610 bytes"
			}
			if err := peer(t, raw); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestNoHelloInTime(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	go io.Copy(io.Discard, a)
	_, err := New(t.Context(), b, b, b.Close, Options{HelloTimeout: 10 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("silent peer: %v", err)
	}
}

func FuzzPeer(f *testing.F) {
	f.Add(message(f, Message{Type: typeCall, ID: 1, Op: "echo", Input: true, Output: true}))
	f.Add(append(message(f, Message{Type: typeCall, ID: 1, Op: "echo", Input: true}), dataFrame(kindInput, 1, []byte("x"))...))
	f.Add(grantFrame(kindGrantOutput, 1, 7))
	f.Add([]byte{0, 0, 0, 9, 0, '{'})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := peer(t, append(hello(t), raw...)); err == nil {
			t.Error("a connection that ended has no error")
		}
	})
}

func BenchmarkCall(b *testing.B) {
	a, far := net.Pipe()
	go New(b.Context(), far, far, far.Close, Options{Ops: testOps()})
	c, err := New(b.Context(), a, a, a.Close, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var n int
	for b.Loop() {
		if err := c.Call(b.Context(), "add", sum{1, 2}, &n, Streams{}); err != nil {
			b.Fatal(err)
		}
	}
}
