package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/clusterimage/sealer/grpc"
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
	grpc      *grpc.Client
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
	return &Client{socket: socket, namespace: namespace, grpc: grpc.New(socket, maxMessage)}, nil
}

// Close ends the connections.
func (c *Client) Close() { c.grpc.Close() }

const services = "containerd.services."

// header is the metadata of a call.
func (c *Client) header() http.Header {
	h := http.Header{"Containerd-Namespace": {c.namespace}}
	if c.lease != "" {
		h.Set("Containerd-Lease", c.lease)
	}
	return h
}

// call makes a call of one message and returns the one that answers.
func (c *Client) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	b, err := c.grpc.Call(ctx, services+method, c.header(), message)
	return b, c.fault(method, err)
}

// fault says where an error of a call comes from. containerd's own words, in a
// StatusError, say it already.
func (c *Client) fault(method string, err error) error {
	var s *grpc.StatusError
	if err == nil || errors.As(err, &s) {
		return err
	}
	return fmt.Errorf("containerd at %s: %s: %w", c.socket, method, err)
}

// An answers is the answering half of a call of many messages.
type answers struct {
	*grpc.Stream
	c      *Client
	method string
}

// stream begins a call whose messages, framed, are read from body.
func (c *Client) stream(ctx context.Context, method string, body io.Reader) (*answers, error) {
	s, err := c.grpc.Stream(ctx, services+method, c.header(), body)
	if err != nil {
		return nil, c.fault(method, err)
	}
	return &answers{s, c, method}, nil
}

// receive returns the next message, io.EOF after the last one.
func (a *answers) receive() ([]byte, error) {
	b, err := a.Receive()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	return b, a.c.fault(a.method, err)
}

// decode reads the fields of an answer.
func decode(b []byte) (grpc.Fields, error) {
	f, err := grpc.Decode(b)
	if err != nil {
		err = fmt.Errorf("answer of containerd: %w", err)
	}
	return f, err
}

// mask encodes a google.protobuf.FieldMask.
func mask(paths ...string) (m grpc.Message) {
	for _, p := range paths {
		m = m.Text(1, p)
	}
	return m
}
