package containerd

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/clusterimage/sealer/grpc"
)

// The labels by which containerd's garbage collection is steered; see "Garbage
// Collection" in containerd's documentation.
const (
	// LabelContent begins the label of content that refers to other content.
	LabelContent = "containerd.io/gc.ref.content."
	labelExpire  = "containerd.io/gc.expire"
	labelPurpose = "sealer.cloud/push"
)

// leaseTime is how long the blobs of a run that was killed stay without an image.
const leaseTime = 24 * time.Hour

// EnsureNamespace makes the namespace if it is not there, and reports whether it
// did.
func (c *Client) EnsureNamespace(ctx context.Context) (created bool, err error) {
	// Get answers for a namespace that is not there as for an empty one.
	_, err = c.call(ctx, "namespaces.v1.Namespaces/Create", grpc.Message(nil).Bytes(1, grpc.Message(nil).Text(1, c.namespace)))
	if grpc.HasCode(err, grpc.AlreadyExists) {
		return false, nil
	}
	return err == nil, c.wrap("namespace "+c.namespace, err)
}

func (c *Client) wrap(subject string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	return nil
}

// Lease returns a client whose new content stays until the lease is released, or a
// day has passed: content without an image would be collected meanwhile. purpose
// is the same for runs that do the same. release ends all leases of the purpose.
func (c *Client) Lease(ctx context.Context, purpose string) (_ *Client, release func(context.Context) error, err error) {
	const service = "leases.v1.Leases/"
	id := "sealer-" + rand.Text()
	labels := map[string]string{labelExpire: time.Now().UTC().Add(leaseTime).Format(time.RFC3339), labelPurpose: purpose}
	if _, err := c.call(ctx, service+"Create", grpc.Message(nil).Text(1, id).Map(3, labels)); err != nil {
		return nil, nil, fmt.Errorf("lease: %w", err)
	}
	leased := *c
	leased.lease = id
	return &leased, func(ctx context.Context) error {
		b, err := c.call(ctx, service+"List", grpc.Message(nil).Text(1, fmt.Sprintf("labels.%q==%q", labelPurpose, purpose)))
		if err != nil {
			return fmt.Errorf("leases: %w", err)
		}
		f, err := decode(b)
		if err != nil {
			return err
		}
		for _, one := range f.Messages(1) {
			l, err := decode(one)
			if err != nil {
				return err
			}
			if _, err := c.call(ctx, service+"Delete", grpc.Message(nil).Text(1, l.Text(1))); err != nil && !grpc.HasCode(err, grpc.NotFound) {
				return fmt.Errorf("lease %s: %w", l.Text(1), err)
			}
		}
		return nil
	}, nil
}

// Keep adds a blob that was there before to the client's lease.
func (c *Client) Keep(ctx context.Context, d digest.Digest) error {
	resource := grpc.Message(nil).Text(1, d.String()).Text(2, "content")
	_, err := c.call(ctx, "leases.v1.Leases/AddResource", grpc.Message(nil).Text(1, c.lease).Bytes(2, resource))
	if grpc.HasCode(err, grpc.AlreadyExists) {
		err = nil
	}
	return c.wrap("keep "+d.String(), err)
}

// Name gives the image target the name name, which another image loses, and
// reports whether that changed something.
func (c *Client) Name(ctx context.Context, name string, target ocispec.Descriptor) (changed bool, err error) {
	const service = "images.v1.Images/"
	descriptor := grpc.Message(nil).Text(1, target.MediaType).Text(2, target.Digest.String()).Int(3, target.Size)
	im := grpc.Message(nil).Text(1, name).Bytes(3, descriptor)
	_, err = c.call(ctx, service+"Create", grpc.Message(nil).Bytes(1, im))
	if !grpc.HasCode(err, grpc.AlreadyExists) {
		return err == nil, c.wrap("image "+name, err)
	}
	b, err := c.call(ctx, service+"Get", grpc.Message(nil).Text(1, name))
	if err != nil {
		return false, c.wrap("image "+name, err)
	}
	f, err := decode(b)
	for _, field := range []protowire.Number{1, 3} { // Image, its target
		if err == nil {
			f, err = f.Message(field)
		}
	}
	if err != nil {
		return false, c.wrap("image "+name, err)
	}
	if f.Text(2) == target.Digest.String() {
		return false, nil
	}
	_, err = c.call(ctx, service+"Update", grpc.Message(nil).Bytes(1, im).Bytes(2, mask("target")))
	return err == nil, c.wrap("image "+name, err)
}
