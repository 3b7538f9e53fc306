package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/store"
)

// maxSignatures bounds the signatures of one image.
const maxSignatures = 256

// signatures returns where cosign keeps the signatures of the manifest d of r's
// repository.
func signatures(r ref.Reference, d digest.Digest) ref.Reference {
	return ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: sign.Tag(d)}
}

// Sign adds a signature of the manifest or index d to those that the repository of
// to has of it, under cosign's tag.
func Sign(ctx context.Context, s *store.Store, c *remote.Client, key *sign.Signer, d digest.Digest, to ref.Reference) error {
	at := signatures(to, d)
	m, err := readSignatures(ctx, c, at)
	if err != nil && !errors.Is(err, remote.ErrNotFound) {
		return fmt.Errorf("sign %s: %w", to, err)
	}
	for _, l := range m.Layers { // the registry has them; Push may want to read them
		if err := s.PutBlob(ctx, l, func(w io.Writer) error { return c.Blob(ctx, at, l, w) }); err != nil {
			return fmt.Errorf("sign %s: %w", to, err)
		}
	}
	made, err := key.Sign(to.Name(), d)
	if err != nil {
		return err
	}
	put := func(mediaType string, b []byte) (ocispec.Descriptor, error) {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
		return desc, s.PutBlob(ctx, desc, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(b)); return err })
	}
	layer, err := put(sign.MediaTypePayload, made.Payload)
	if err != nil {
		return fmt.Errorf("sign %s: %w", to, err)
	}
	layer.Annotations = map[string]string{sign.Annotation: made.Signature}
	m.Layers = append(m.Layers, layer)
	config := ocispec.Image{RootFS: ocispec.RootFS{Type: "layers"}}
	for _, l := range m.Layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.Digest)
	}
	content, err := json.Marshal(config)
	if err == nil {
		m.Config, err = put(ocispec.MediaTypeImageConfig, content)
	}
	if err != nil {
		return fmt.Errorf("sign %s: %w", to, err)
	}
	m.Versioned, m.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest
	if content, err = json.Marshal(m); err != nil {
		return fmt.Errorf("sign %s: %w", to, err)
	}
	desc, err := put(m.MediaType, content)
	if err == nil {
		err = c.Push(ctx, s, desc, at, remote.PushOptions{})
	}
	if err != nil {
		return fmt.Errorf("sign %s: %w", to, err)
	}
	return nil
}

// readSignatures reads the manifest of signatures at.
func readSignatures(ctx context.Context, c *remote.Client, at ref.Reference) (m ocispec.Manifest, err error) {
	_, b, err := c.Manifest(ctx, at)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, err
	}
	if len(m.Layers) > maxSignatures {
		return m, fmt.Errorf("%d signatures, and sealer reads %d", len(m.Layers), maxSignatures)
	}
	return m, nil
}

// CheckSignature returns an error that wraps sign.ErrSignature unless the repository
// of from has a signature of the manifest or index d that key made.
func CheckSignature(ctx context.Context, c *remote.Client, key *sign.Verifier, d digest.Digest, from ref.Reference) error {
	list, err := c.Signatures(ctx, from, d)
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: %w: %s has none of %s", from, sign.ErrSignature, from.Name(), d)
	}
	if err := key.CheckAny(list, d); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// PullSigned is Pull of an image that key has signed: an unsigned one is refused
// before its layers are fetched, and no name changes.
func PullSigned(ctx context.Context, s *store.Store, c *remote.Client, from ref.Reference, key *sign.Verifier, o remote.PullOptions) (ocispec.Descriptor, error) {
	return pull(ctx, s, c, from, o, func(ctx context.Context, d digest.Digest) error { return CheckSignature(ctx, c, key, d, from) })
}
