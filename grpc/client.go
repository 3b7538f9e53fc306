package grpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// A Client calls the services behind one socket. It is safe for concurrent use.
type Client struct {
	max  uint32 // bytes of a message
	http *http.Client
}

// New returns a client of the services behind socket, a path. maxMessage bounds
// one message of an answer, in bytes. The socket is first used by a call.
func New(socket string, maxMessage uint32) *Client {
	t := &http.Transport{
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &Client{maxMessage, &http.Client{Transport: t}}
}

// Close ends the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A Code is a status of gRPC; the numbers are those of its specification.
type Code int

// The codes that callers tell apart.
const (
	NotFound           Code = 5
	AlreadyExists      Code = 6
	FailedPrecondition Code = 9
	Unimplemented      Code = 12
	Unavailable        Code = 14
)

// A StatusError is the answer of a call that the service refused.
type StatusError struct {
	Code    Code
	Message string // as the service sent it; may be empty
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("gRPC status %d", e.Code)
	}
	return e.Message
}

// HasCode says whether err wraps a StatusError with the code want.
func HasCode(err error, want Code) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Code == want
}

// Frame puts the prefix of gRPC before a message: not compressed, and its length.
func Frame(message []byte) []byte {
	out := make([]byte, 5, 5+len(message))
	binary.BigEndian.PutUint32(out[1:], uint32(len(message)))
	return append(out, message...)
}

// Call calls method, SERVICE/METHOD with the service's package, with one message
// and returns the one that answers. header is the call's metadata. The error wraps
// a StatusError where the service refused, and the cause of a context that ended.
func (c *Client) Call(ctx context.Context, method string, header http.Header, message []byte) ([]byte, error) {
	s, err := c.Stream(ctx, method, header, bytes.NewReader(Frame(message)))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	answer, err := s.Receive()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the answer has no message")
	}
	if err != nil {
		return nil, err
	}
	switch _, err = s.Receive(); {
	case err == nil:
		return nil, errors.New("more than one answer")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return answer, nil
}

// A Stream is the answering half of a call.
type Stream struct {
	max uint32
	r   *http.Response
}

// Stream begins a call whose messages, each with its Frame, are read from body.
// The caller closes the stream.
func (c *Client) Stream(ctx context.Context, method string, header http.Header, body io.Reader) (*Stream, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/"+method, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	r, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the made-up URL
		}
		return nil, ended(ctx, err)
	}
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		r.Body.Close()
		return nil, fmt.Errorf("it answers %s, and does not speak gRPC", r.Status)
	}
	return &Stream{c.max, r}, nil
}

// ended returns the cause of a context that ended, which says more than the error
// of the connection; else err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close ends the call, also one that has further messages.
func (s *Stream) Close() { s.r.Body.Close() }

// Receive returns the next message, io.EOF after the last one of a call that
// succeeded. Other errors are as those of Call.
func (s *Stream) Receive() ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(s.r.Body, head[:]); errors.Is(err, io.EOF) {
		return nil, s.status()
	} else if err != nil {
		return nil, ended(s.r.Request.Context(), err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || n > s.max {
		return nil, fmt.Errorf("an answer of %d bytes, compression %d; at most %d bytes without compression are read", n, head[0], s.max)
	}
	// The buffer grows with the bytes that come: a length alone takes no memory.
	message, err := io.ReadAll(io.LimitReader(s.r.Body, int64(n)))
	if err == nil && len(message) < int(n) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, ended(s.r.Request.Context(), err)
	}
	return message, nil
}

// status reads the end of a call. An answer without messages has it in its header.
func (s *Stream) status() error {
	from := s.r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = s.r.Header
	}
	n, err := strconv.Atoi(from.Get("Grpc-Status"))
	if err != nil {
		return errors.New("the answer broke off: it has no status of gRPC")
	}
	if n == 0 {
		return io.EOF
	}
	text, err := url.PathUnescape(from.Get("Grpc-Message"))
	if err != nil {
		text = from.Get("Grpc-Message")
	}
	return &StatusError{Code(n), text}
}
