package cri

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// An Image is one image that a runtime keeps.
type Image struct {
	ID      string   `json:"id"`                // the digest of its config, sha256:...
	Tags    []string `json:"tags,omitempty"`    // NAME:TAG
	Digests []string `json:"digests,omitempty"` // NAME@sha256:..., of a manifest or an index
}

// A Container is one container of a runtime, whether it runs or has ended.
type Container struct {
	ID    string `json:"id"`
	Image string `json:"image"` // what it was made of: sha256:... or NAME@sha256:...
	// The labels that the kubelet gives its containers; empty for others.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Name      string `json:"name,omitempty"`
}

func (c *Container) label(key, value string) {
	switch key {
	case "io.kubernetes.pod.namespace":
		c.Namespace = value
	case "io.kubernetes.pod.name":
		c.Pod = value
	case "io.kubernetes.container.name":
		c.Name = value
	}
}

// Bounds of a question.
const (
	within    = 20 * time.Second
	maxAnswer = 64 << 20 // bytes
)

// A Runtime is the container runtime behind a unix socket.
type Runtime struct {
	Socket string // a path
}

// statusError is an answer of gRPC that is no success.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("gRPC status %d: %.300q", e.code, e.text) }

// unimplemented is the status of a service that a server does not have.
const unimplemented = 12

// Images lists the images that the runtime keeps.
func (r Runtime) Images(ctx context.Context) ([]Image, error) {
	if r.docker() {
		return r.dockerImages(ctx)
	}
	b, err := r.ask(ctx, "ImageService/ListImages")
	if err != nil {
		return nil, err
	}
	var out []Image
	err = fields(b, func(number uint64, data []byte) error {
		if number != 1 {
			return nil
		}
		i, err := imageOf(data)
		out = append(out, i)
		return err
	})
	return out, err
}

// Containers lists the runtime's containers.
func (r Runtime) Containers(ctx context.Context) ([]Container, error) {
	if r.docker() {
		return r.dockerContainers(ctx)
	}
	b, err := r.ask(ctx, "RuntimeService/ListContainers")
	if err != nil {
		return nil, err
	}
	var out []Container
	err = fields(b, func(number uint64, data []byte) error {
		if number != 1 {
			return nil
		}
		c, err := containerOf(data)
		out = append(out, c)
		return err
	})
	return out, err
}

// ask calls a method with an empty message and returns the message of the
// answer.
func (r Runtime) ask(ctx context.Context, method string) ([]byte, error) {
	var err error
	for _, version := range []string{"v1", "v1alpha2"} {
		var b []byte
		b, err = r.call(ctx, "/runtime."+version+"."+method)
		var status *statusError
		if !errors.As(err, &status) || status.code != unimplemented {
			if err != nil {
				err = fmt.Errorf("container runtime %s: %s: %w", r.Socket, method, err)
			}
			return b, err
		}
	}
	return nil, fmt.Errorf("container runtime %s: %s: %w", r.Socket, method, err)
}

// client speaks HTTP to the socket, in version 2 where h2 is set.
func (r Runtime) client(h2 bool) *http.Client {
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", r.Socket)
		},
		DisableKeepAlives: true, DisableCompression: true,
	}
	if h2 {
		t.Protocols = new(http.Protocols)
		t.Protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Client{Transport: t}
}

// call makes one call (grpc.io, "gRPC over HTTP2").
func (r Runtime) call(ctx context.Context, path string) (_ []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	empty := make([]byte, 5) // not compressed, of length 0
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+path, bytes.NewReader(empty))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/grpc")
	q.Header.Set("TE", "trailers")
	a, err := r.client(true).Do(q)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Body.Close()) }()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", a.Status)
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	if err := status(a); err != nil {
		return nil, err
	}
	if len(b) < 5 || b[0] != 0 || uint64(binary.BigEndian.Uint32(b[1:5])) != uint64(len(b)-5) {
		return nil, errMessage
	}
	return b[5:], nil
}

// status reads the status of gRPC after the body: from the trailer, or from the
// header of an answer without a body.
func status(a *http.Response) error {
	text, message := a.Trailer.Get("Grpc-Status"), a.Trailer.Get("Grpc-Message")
	if text == "" {
		text, message = a.Header.Get("Grpc-Status"), a.Header.Get("Grpc-Message")
	}
	code, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("it does not speak gRPC")
	}
	if code != 0 {
		return &statusError{code, message}
	}
	return nil
}
