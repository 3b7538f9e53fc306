package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/sign"
)

const (
	maxSignatures = 256     // of one image that are looked at
	maxPayload    = 1 << 20 // bytes
)

// A Policy says which images may be taken from registries. It is safe for concurrent
// use.
type Policy interface {
	// Allow judges an image by its name, before its registry is asked. signed says
	// that Judge must see its signatures, too.
	Allow(r ref.Reference) (signed bool, err error)
	// Judge judges the signatures of the manifest or index d of r.
	Judge(r ref.Reference, d digest.Digest, signatures []sign.Signature) error
}

// Allow returns the error of the policy for the image or artifact r, the digest of
// whose manifest or index is known. Walk and Pull do it themselves.
func (c *Client) Allow(ctx context.Context, r ref.Reference, d digest.Digest) error {
	return c.judge(ctx, r, []digest.Digest{d}, func(d digest.Digest) ([]sign.Signature, error) { return c.Signatures(ctx, r, d) })
}

// judge applies the policy. The last of digests is r's own. As with podman, which
// looks at the platform that it takes, an index is also accepted when each manifest
// that is taken of it is.
func (c *Client) judge(ctx context.Context, r ref.Reference, digests []digest.Digest, signatures func(digest.Digest) ([]sign.Signature, error)) error {
	if c.o.Policy == nil {
		return nil
	}
	signed, err := c.o.Policy.Allow(r)
	if err != nil || !signed {
		return err
	}
	one := func(d digest.Digest) error {
		list, err := signatures(d)
		if err != nil {
			return err
		}
		return c.o.Policy.Judge(r, d, list)
	}
	children := digests[:len(digests)-1]
	refused := one(digests[len(children)])
	if refused == nil || len(children) == 0 {
		return refused
	}
	for _, d := range children {
		if one(d) != nil {
			return refused
		}
	}
	return ctx.Err()
}

// judge applies the policy to the manifests of w.
func (w *walk) judge(ctx context.Context, content *Content) error {
	if w.o.Judged {
		return nil
	}
	var digests []digest.Digest
	for _, d := range content.Manifests {
		digests = append(digests, d.Digest)
	}
	return w.c.judge(ctx, w.r, digests, func(d digest.Digest) ([]sign.Signature, error) {
		if !w.o.Offline {
			return w.c.Signatures(ctx, w.r, d)
		}
		var at digest.Digest
		if w.o.Signatures != nil {
			at = w.o.Signatures(d)
		}
		if at == "" {
			return nil, fmt.Errorf("signatures of %s: %w", d, ErrOffline)
		}
		b, err := w.sink.ReadBlob(ctx, at, MaxManifest)
		if err != nil {
			return nil, fmt.Errorf("signatures of %s: %w", d, err)
		}
		return signaturesOf(b, func(l ocispec.Descriptor) ([]byte, error) { return w.sink.ReadBlob(ctx, l.Digest, maxPayload) })
	})
}

// Signatures returns cosign's signatures of the manifest or index d of r's
// repository: those under its tag, else those that name d as their subject, as the
// registry or the referrers tag lists them. There are none where it has neither.
func (c *Client) Signatures(ctx context.Context, r ref.Reference, d digest.Digest) ([]sign.Signature, error) {
	list, err := c.TaggedSignatures(ctx, r, d)
	if list != nil || err != nil {
		return list, err
	}
	at := ref.Reference{Registry: r.Registry, Repository: r.Repository, Digest: d}
	referrers, supported, err := c.Referrers(ctx, at)
	if err == nil && !supported {
		referrers, err = c.taggedReferrers(ctx, at)
	}
	if err != nil {
		return nil, fmt.Errorf("signatures of %s: %w", d, err)
	}
	for _, m := range referrers {
		if m.ArtifactType != sign.ArtifactType && !sign.IsBundle(m.ArtifactType) || len(list) >= maxSignatures {
			continue
		}
		at.Digest = m.Digest
		more, err := c.signaturesAt(ctx, at)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// TaggedSignatures returns those under cosign's tag, with one request where there are
// none.
func (c *Client) TaggedSignatures(ctx context.Context, r ref.Reference, d digest.Digest) ([]sign.Signature, error) {
	list, err := c.signaturesAt(ctx, ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: sign.Tag(d)})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return list, err
}

// signaturesAt reads the signatures in the manifest at.
func (c *Client) signaturesAt(ctx context.Context, at ref.Reference) ([]sign.Signature, error) {
	_, b, err := c.Manifest(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("signatures %s: %w", at, err)
	}
	list, err := signaturesOf(b, func(l ocispec.Descriptor) ([]byte, error) {
		var b bytes.Buffer
		err := c.Blob(ctx, at, l, &b)
		if err == nil && digest.FromBytes(b.Bytes()) != l.Digest {
			err = fmt.Errorf("blob %s: %w", l.Digest, ErrDigest)
		}
		return b.Bytes(), err
	})
	if err != nil {
		return nil, fmt.Errorf("signatures %s: %w", at, err)
	}
	return list, nil
}

// signaturesOf returns the signatures in a manifest.
func signaturesOf(manifest []byte, blob func(ocispec.Descriptor) ([]byte, error)) ([]sign.Signature, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(manifest, &m); err != nil {
		return nil, err
	}
	if len(m.Layers) > maxSignatures {
		return nil, fmt.Errorf("%d signatures, and sealer reads %d: %w", len(m.Layers), maxSignatures, ErrUnsupported)
	}
	var out []sign.Signature
	for _, l := range m.Layers {
		bundle := sign.IsBundle(l.MediaType)
		if l.MediaType != sign.MediaTypePayload && !bundle || l.Size > maxPayload {
			continue
		}
		b, err := blob(l)
		if err != nil {
			return nil, err
		}
		if bundle {
			more, err := sign.ParseBundle(b)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
			continue
		}
		out = append(out, sign.Signature{Payload: b, Signature: l.Annotations[sign.Annotation]})
	}
	return out, nil
}
