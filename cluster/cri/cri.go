package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/clusterimage/sealer/grpc"
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

// Images lists the images that the runtime keeps.
func (r Runtime) Images(ctx context.Context) ([]Image, error) {
	if r.docker() {
		return r.dockerImages(ctx)
	}
	b, err := r.ask(ctx, "ImageService/ListImages")
	if err != nil {
		return nil, err
	}
	return list(b, imageOf)
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
	return list(b, containerOf)
}

// ask calls a method with an empty message and returns the message of the
// answer.
func (r Runtime) ask(ctx context.Context, method string) (b []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("no answer within %v", within))
	defer cancel()
	c := grpc.New(r.Socket, maxAnswer)
	defer c.Close()
	for _, version := range []string{"v1", "v1alpha2"} {
		b, err = c.Call(ctx, "runtime."+version+"."+method, nil, nil)
		if !grpc.HasCode(err, grpc.Unimplemented) {
			break
		}
	}
	var status *grpc.StatusError
	if errors.As(err, &status) {
		err = fmt.Errorf("gRPC status %d: %.300q", status.Code, status.Message)
	}
	if err != nil {
		return nil, fmt.Errorf("container runtime %s: %s: %w", r.Socket, method, err)
	}
	return b, nil
}

// list decodes the messages of field 1, of which both answers consist.
func list[T any](b []byte, one func(grpc.Fields) (T, error)) ([]T, error) {
	f, err := grpc.Decode(b)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, b := range f.Messages(1) {
		f, err := grpc.Decode(b)
		if err != nil {
			return nil, err
		}
		item, err := one(f)
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}

// imageOf reads the message Image. The field numbers here and below stand in
// k8s.io/cri-api, pkg/apis/runtime/v1/api.proto.
func imageOf(f grpc.Fields) (Image, error) {
	return Image{f.Text(1), f.Texts(2), f.Texts(3)}, nil
}

func containerOf(f grpc.Fields) (Container, error) {
	c := Container{ID: f.Text(1), Image: f.Text(5)}
	labels, err := f.Map(8)
	for key, value := range labels {
		c.label(key, value)
	}
	return c, err
}
