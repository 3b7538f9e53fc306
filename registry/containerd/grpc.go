package containerd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// DefaultSocket is the socket of a containerd that was installed by itself.
const DefaultSocket = "/run/containerd/containerd.sock"

// DefaultNamespace is the one that Kubernetes' containers and images are in.
const DefaultNamespace = "k8s.io"

// maxMessage bounds an answer, in bytes; containerd itself takes no more.
const maxMessage = 16 << 20

// A Client speaks to one containerd about one namespace. It is safe for concurrent
// use.
type Client struct {
	socket    string
	namespace string
	lease     string // that new content belongs to; "" for none
	http      *http.Client
}

// Dial returns a client of the containerd behind socket, a path or a unix:// URL.
// The error wraps fs.ErrNotExist or fs.ErrPermission where the socket is not there
// or belongs to another user.
func Dial(ctx context.Context, socket, namespace string) (*Client, error) {
	socket = strings.TrimPrefix(socket, "unix://")
	var d net.Dialer
	probe, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		var call *os.SyscallError
		if errors.As(err, &call) {
			err = call.Err // without the path, which is said
		}
		return nil, fmt.Errorf("containerd at %s: %w", socket, err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("containerd at %s: %w", socket, err)
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	return &Client{socket: socket, namespace: namespace, http: &http.Client{Transport: &http.Transport{
		Protocols:          &protocols,
		DisableCompression: true,
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return d.DialContext(ctx, "unix", socket) },
	}}}, nil
}

// Close ends the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// A code is a status of gRPC.
type code int

// The codes that mean something here; the numbers are gRPC's.
const (
	codeNotFound      code = 5
	codeAlreadyExists code = 6
	codePrecondition  code = 9
	codeUnavailable   code = 14
)

// A statusError is the answer of a call that failed.
type statusError struct {
	code    code
	message string
}

func (e *statusError) Error() string { return e.message }

func hasCode(err error, want code) bool {
	var s *statusError
	return errors.As(err, &s) && s.code == want
}

// call makes a call of one message and returns the one that answers.
func (c *Client) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	s, err := c.stream(ctx, method, bytes.NewReader(frame(message)))
	if err != nil {
		return nil, err
	}
	defer s.close()
	answer, err := s.receive()
	if err != nil {
		return nil, err
	}
	_, err = s.receive()
	if !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("containerd %s: %w", method, cmpErr(err, errors.New("more than one answer")))
	}
	return answer, nil
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// frame puts the prefix of gRPC before a message: no compression, and its length.
func frame(message []byte) []byte {
	out := make([]byte, 5, 5+len(message))
	binary.BigEndian.PutUint32(out[1:], uint32(len(message)))
	return append(out, message...)
}

// An answers is the answering half of a call.
type answers struct {
	method string
	r      *http.Response
}

// stream begins a call whose messages, framed, are read from body.
func (c *Client) stream(ctx context.Context, method string, body io.Reader) (*answers, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://containerd/containerd.services."+method, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Te", "trailers")
	req.Header.Set("Containerd-Namespace", c.namespace)
	if c.lease != "" {
		req.Header.Set("Containerd-Lease", c.lease)
	}
	r, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the made-up URL
		}
		return nil, fmt.Errorf("containerd at %s: %w", c.socket, err)
	}
	if r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		r.Body.Close()
		return nil, fmt.Errorf("%s answers %s, and not as containerd does", c.socket, r.Status)
	}
	return &answers{method, r}, nil
}

func (a *answers) close() { a.r.Body.Close() }

// receive returns the next message, io.EOF after the last one of a call that
// succeeded.
func (a *answers) receive() ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(a.r.Body, head[:]); errors.Is(err, io.EOF) {
		return nil, a.status()
	} else if err != nil {
		return nil, fmt.Errorf("containerd %s: %w", a.method, err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if head[0] != 0 || n > maxMessage {
		return nil, fmt.Errorf("containerd %s: an answer of %d bytes, compression %d", a.method, n, head[0])
	}
	message := make([]byte, n)
	if _, err := io.ReadFull(a.r.Body, message); err != nil {
		return nil, fmt.Errorf("containerd %s: %w", a.method, err)
	}
	return message, nil
}

// status reads the end of a call. An answer without messages has it in its header.
func (a *answers) status() error {
	from := a.r.Trailer
	if from.Get("Grpc-Status") == "" {
		from = a.r.Header
	}
	n, err := strconv.Atoi(from.Get("Grpc-Status"))
	if err != nil {
		return fmt.Errorf("containerd %s: the answer broke off", a.method)
	}
	if n == 0 {
		return io.EOF
	}
	text, err := url.PathUnescape(from.Get("Grpc-Message"))
	if err != nil {
		text = from.Get("Grpc-Message")
	}
	return &statusError{code(n), text}
}
