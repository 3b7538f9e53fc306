package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// maxSignatures bounds the signatures of one image.
const maxSignatures = 256

// signatures returns where cosign keeps the signatures of the manifest d of r's
// repository.
func signatures(r ref.Reference, d digest.Digest) ref.Reference {
	return ref.Reference{Registry: r.Registry, Repository: r.Repository, Tag: sign.Tag(d)}
}

// Sign adds a signature of the manifest or index desc, an image of the store, to
// those that the repository of to has of it, under cosign's tag. The manifest of the
// signatures names the image as its subject, so that the registry lists it as one of
// the image's referrers. The store keeps the signature, too.
func Sign(ctx context.Context, s *store.Store, c *remote.Client, key *sign.Signer, desc ocispec.Descriptor, to ref.Reference) error {
	fail := func(err error) error { return fmt.Errorf("sign %s: %w", to, err) }
	at := signatures(to, desc.Digest)
	m, err := readSignatures(ctx, c, at)
	if err != nil && !errors.Is(err, remote.ErrNotFound) {
		return fail(err)
	}
	for _, l := range m.Layers { // the registry has them; Push may want to read them
		if err := s.PutBlob(ctx, l, func(w io.Writer) error { return c.Blob(ctx, at, l, w) }); err != nil {
			return fail(err)
		}
	}
	made, err := key.Sign(to.Name(), desc.Digest)
	if err != nil {
		return err
	}
	put := func(mediaType string, b []byte) (ocispec.Descriptor, error) {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}
		return desc, s.PutBlob(ctx, desc, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(b)); return err })
	}
	layer, err := put(sign.MediaTypePayload, made.Payload)
	if err != nil {
		return fail(err)
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
		return fail(err)
	}
	m.Versioned, m.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest
	m.ArtifactType, m.Subject = sign.ArtifactType, &ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
	if content, err = json.Marshal(m); err != nil {
		return fail(err)
	}
	top, err := put(m.MediaType, content)
	if err == nil {
		err = c.Push(ctx, s, top, at, remote.PushOptions{})
	}
	if err == nil {
		err = listReferrer(ctx, s, c, to, desc.Digest, content)
	}
	if err == nil {
		err = s.AddSignatures(ctx, desc.Digest, []sign.Signature{made})
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// listReferrer adds the artifact with the manifest b to the referrers tag of subject,
// where the registry of to does not list referrers itself: clients find it by that
// tag. Source: OCI distribution specification 1.1, "Pushing Manifests with Subject".
func listReferrer(ctx context.Context, s *store.Store, c *remote.Client, to ref.Reference, subject digest.Digest, b []byte) error {
	at := ref.Reference{Registry: to.Registry, Repository: to.Repository, Digest: subject}
	_, supported, err := c.Referrers(ctx, at)
	if supported || err != nil {
		return err
	}
	at.Tag, at.Digest = tree.AttachmentTag(subject), ""
	var old ocispec.Index
	_, content, err := c.Manifest(ctx, at)
	if err == nil {
		err = json.Unmarshal(content, &old)
	}
	if err != nil && !errors.Is(err, remote.ErrNotFound) {
		return fmt.Errorf("referrers %s: %w", at, err)
	}
	entry, err := mirror.ReferrerOf(subject, ocispec.MediaTypeImageManifest, b)
	if err != nil {
		return err
	}
	entries := slices.DeleteFunc(old.Manifests, func(d ocispec.Descriptor) bool { return d.Digest == entry.Digest })
	desc, content, err := mirror.ReferrersIndex(append(entries, entry))
	if err != nil {
		return err
	}
	err = s.PutBlob(ctx, desc, func(w io.Writer) error { _, err := w.Write(content); return err })
	if err != nil {
		return err
	}
	return c.Push(ctx, s, desc, at, remote.PushOptions{Sparse: true})
}

// SignHere makes a signature of the image nameOrID that the store keeps: Save writes
// it. The signature names the image's repository.
func SignHere(ctx context.Context, s *store.Store, key *sign.Signer, nameOrID string) error {
	im, err := s.Image(ctx, nameOrID, nil)
	if err != nil {
		return err
	}
	name := im.ID
	if r, err := ref.Parse(nameOrID); err == nil && slices.ContainsFunc(im.Names, func(n string) bool { return n == r.String() }) {
		name = r.Name()
	} else if len(im.Names) > 0 {
		r, err := ref.Parse(im.Names[0])
		if err != nil {
			return err
		}
		name = r.Name()
	}
	made, err := key.Sign(name, im.Descriptor.Digest)
	if err != nil {
		return err
	}
	return s.AddSignatures(ctx, im.Descriptor.Digest, []sign.Signature{made})
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

// CheckKept returns an error that wraps sign.ErrSignature unless the store keeps a
// signature of the image nameOrID that key made: of a push, a pull or a load.
func CheckKept(s *store.Store, key *sign.Verifier, nameOrID string) error {
	d, list, err := s.Signatures(nameOrID)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: %w: this store has none of %s", nameOrID, sign.ErrSignature, d.Digest)
	}
	if err := key.CheckAny(list, d.Digest); err != nil {
		return fmt.Errorf("%s: %w", nameOrID, err)
	}
	return nil
}

// CheckSignature is CheckKept, which asks the repository of from where the store has
// no such signature, and then keeps the one that it finds.
func CheckSignature(ctx context.Context, s *store.Store, c *remote.Client, key *sign.Verifier, nameOrID string, from ref.Reference) error {
	err := CheckKept(s, key, nameOrID)
	if err == nil || !errors.Is(err, sign.ErrSignature) {
		return err
	}
	d, _, err := s.Signatures(nameOrID)
	if err != nil {
		return err
	}
	list, err := signed(ctx, c, key, d.Digest, from)
	if err != nil {
		return err
	}
	return s.AddSignatures(ctx, d.Digest, list)
}

// signed returns the signatures that the repository of from has of the manifest or
// index d. The error wraps sign.ErrSignature unless key made one of them.
func signed(ctx context.Context, c *remote.Client, key *sign.Verifier, d digest.Digest, from ref.Reference) ([]sign.Signature, error) {
	list, err := c.Signatures(ctx, from, d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: %w: %s has none of %s", from, sign.ErrSignature, from.Name(), d)
	}
	if err := key.CheckAny(list, d); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return list, nil
}

// PullSigned is Pull of an image that key has signed: an unsigned one is refused
// before its layers are fetched, and no name changes.
func PullSigned(ctx context.Context, s *store.Store, c *remote.Client, from ref.Reference, key *sign.Verifier, o remote.PullOptions) (ocispec.Descriptor, error) {
	return pull(ctx, s, c, from, o, func(ctx context.Context, d digest.Digest) ([]sign.Signature, error) {
		return signed(ctx, c, key, d, from)
	})
}
