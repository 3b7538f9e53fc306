package transfer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/mirror"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/remote"
	"github.com/clusterimage/sealer/registry/sign"
	"github.com/clusterimage/sealer/registry/tree"
	"github.com/clusterimage/sealer/store"
)

// Names returns the names that a pull of from gives to the image: from itself, or
// none where from has a digest. The digest decides the content, and the tag
// beside it may mean another image today, here or in the registry: as in docker
// pull, it is not set. The image is found by its ID then.
func Names(from ref.Reference) []ref.Reference {
	if from.Digest != "" {
		return nil
	}
	return []ref.Reference{from}
}

// Pull brings the image from its registry into the store and commits it under
// Names. Content that the store has is not asked for again. An artifact that is no
// ClusterImage is refused before its layers are fetched, and leaves nothing in the
// store. Pull returns the descriptor of the manifest or image index. No name
// changes when it fails.
func Pull(ctx context.Context, s *store.Store, c *remote.Client, from ref.Reference, o remote.PullOptions) (ocispec.Descriptor, error) {
	return pull(ctx, s, c, from, o, nil)
}

// pull is Pull, with a check of the digest that the registry answers with, which
// returns the image's signatures; nil checks nothing. The store keeps the signatures
// of an image that it did not have, or that was checked.
func pull(ctx context.Context, s *store.Store, c *remote.Client, from ref.Reference, o remote.PullOptions, check func(context.Context, digest.Digest) ([]sign.Signature, error)) (ocispec.Descriptor, error) {
	var checked digest.Digest
	var signatures []sign.Signature
	o.Accept = func(ctx context.Context, sink remote.Sink, content *remote.Content) (err error) {
		d := content.Descriptor.Digest
		if check != nil {
			if signatures, err = check(ctx, d); err != nil {
				return err
			}
			checked = d
		}
		if err := accept(ctx, sink, c, from, content); err != nil || check != nil || d == o.Known {
			return err
		}
		if signatures, err = c.TaggedSignatures(ctx, from, d); err != nil && ctx.Err() == nil {
			c.Logger().Warn("the image's own signatures are not brought", "image", from.String(), "error", err)
		}
		return ctx.Err()
	}
	o.Parts = func(ctx context.Context, sink remote.Sink, m *remote.Parsed) ([]ocispec.Descriptor, error) {
		return blobManifests(ctx, sink, c, from, m.Config)
	}
	o.Record = Record(s)
	if known, err := s.Named(from); err == nil { // else all is asked for
		o.Known = known
	}
	desc, err := c.Pull(ctx, s, from, o)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if check != nil && checked != desc.Digest { // an image that is here was not judged again
		if signatures, err = check(ctx, desc.Digest); err != nil {
			return ocispec.Descriptor{}, err
		}
	}
	if err := s.Commit(ctx, Names(from), desc); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("pull %s: %w", from, err)
	}
	return desc, s.AddSignatures(ctx, desc.Digest, signatures)
}

// accept refuses content that is no ClusterImage; see image.Accept. Of an index,
// entries without a platform, such as attestations, are not judged.
func accept(ctx context.Context, s remote.Sink, c *remote.Client, from ref.Reference, content *remote.Content) error {
	for _, d := range content.Manifests {
		if platform.IsIndex(d.MediaType) || len(content.Manifests) > 1 && (d.Platform == nil || d.Platform.OS == "unknown") {
			continue
		}
		b, err := s.ReadBlob(ctx, d.Digest, remote.MaxManifest)
		if err != nil {
			return err
		}
		var m ocispec.Manifest
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("manifest %s: %w", d.Digest, err)
		}
		err = image.Accept(&m, func() ([]byte, error) {
			if m.Config.Size > remote.MaxManifest {
				return nil, fmt.Errorf("%w: its config has %d bytes", image.ErrForeign, m.Config.Size)
			}
			err := s.PutBlob(ctx, m.Config, func(w io.Writer) error { return c.Blob(ctx, from, m.Config, w) })
			if err != nil {
				return nil, fmt.Errorf("config %s: %w", m.Config.Digest, err)
			}
			return s.ReadBlob(ctx, m.Config.Digest, remote.MaxManifest)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// maxConfig is the most bytes of a config that names blob manifests.
const maxConfig = 32 << 20

// blobManifests returns the blob manifests that the config, whose descriptor is d,
// of an image of from names. It brings the config into sink where it is of the
// media type that has some.
func blobManifests(ctx context.Context, sink remote.Sink, c *remote.Client, from ref.Reference, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	if d.MediaType != image.MediaTypeSplitConfig {
		return nil, nil
	}
	fail := func(err error) ([]ocispec.Descriptor, error) {
		return nil, fmt.Errorf("config %s: %w", d.Digest, err)
	}
	if d.Size > maxConfig {
		return fail(fmt.Errorf("%w: it has %d bytes, the limit is %d", store.ErrLimit, d.Size, maxConfig))
	}
	if err := sink.PutBlob(ctx, d, func(w io.Writer) error { return c.Blob(ctx, from, d, w) }); err != nil {
		return fail(err)
	}
	b, err := sink.ReadBlob(ctx, d.Digest, maxConfig)
	if err != nil {
		return fail(err)
	}
	var said struct {
		Layers []image.ConfigLayer `json:"layers"`
	}
	if err := json.Unmarshal(b, &said); err != nil {
		return fail(err)
	}
	config := image.Config{Layers: said.Layers}
	if err := config.Check(); err != nil {
		return fail(err)
	}
	return config.BlobManifests(), nil
}

// PushOptions steers Push and PushMirrored. The zero value works.
type PushOptions struct {
	// Base is an image in the target's registry that is like the pushed one; see
	// remote.PushOptions. PushMirrored does not use it.
	Base ref.Reference
	// Verify asks for each blob; see remote.PushOptions. PushMirrored does not use it.
	Verify   bool
	Progress func(remote.Event) // called concurrently; nil for none
}

// Record returns the store's record of what the repositories of registries hold.
// It lies in the store's cache.
func Record(s *store.Store) *remote.Record {
	return remote.OpenRecord(filepath.Join(s.CacheDir(), "registries"))
}

// Push sends the image nameOrID, with every platform that the store has, to the
// registry of to. It returns the image's descriptor, which is the same there. The
// error wraps store.ErrNotFound when the store has no such image.
func Push(ctx context.Context, s *store.Store, c *remote.Client, nameOrID string, to ref.Reference, o PushOptions) (ocispec.Descriptor, error) {
	im, err := s.Image(ctx, nameOrID, nil)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	for _, m := range im.Config.BlobManifests() {
		if im.Index == nil || !slices.ContainsFunc(im.Index.Manifests, func(d ocispec.Descriptor) bool { return d.Digest == m.Digest }) {
			return ocispec.Descriptor{}, fmt.Errorf("push %s: the manifest %s of its mirrored blobs is in no index: get the image by its tag, or copy it with its index (skopeo copy --all)", to, m.Digest)
		}
	}
	if err := whole(ctx, s, im); err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("push %s: %w", to, err)
	}
	return im.Descriptor, c.Push(ctx, s, im.Descriptor, to, remote.PushOptions{
		MountFrom: mirror.MountFrom(im.Documents, to.Registry),
		Base:      o.Base,
		Verify:    o.Verify,
		Record:    Record(s),
		Progress:  o.Progress,
	})
}

// whole refuses an image whose index lists manifests that the store lacks: without
// them no registry has to take the index, and without the index the image has
// another digest, which no signature is of.
func whole(ctx context.Context, s *store.Store, im *store.Image) error {
	if im.Index == nil {
		return nil
	}
	lacking := 0
	for _, m := range im.Index.Manifests {
		has, err := s.HasBlob(ctx, m.Digest)
		if err != nil {
			return err
		}
		if !has {
			lacking++
		}
	}
	if lacking == 0 {
		return nil
	}
	return fmt.Errorf("the store lacks %d of the %d manifests of its index, as after load or pull of one platform: get the image whole, by sealer pull or sealer load, or carry this platform by sealer save --platform",
		lacking, len(im.Index.Manifests))
}

// PushMirrored copies the container images inside the image nameOrID to a
// registry, as mirror.Push does: of the platform p, or of all where p is nil.
// Images in a registry tree among the image's files are copied too. It returns
// the images copied, and the references that the ClusterImage lists and does not
// hold, each once.
func PushMirrored(ctx context.Context, s *store.Store, c *remote.Client, nameOrID string, p *ocispec.Platform, to mirror.Prefix, o PushOptions) (_ []mirror.Pushed, lacking []ref.Reference, err error) {
	images, err := Images(ctx, s, nameOrID, p)
	if err != nil {
		return nil, nil, err
	}
	src := heldSource{Store: s}
	var docs []*tree.Document
	for _, im := range images {
		inside := im.Documents
		held, err := HeldInFiles(s, im)
		if err != nil {
			return nil, nil, err
		}
		if held != nil {
			root, err := s.Rootfs(filesWithRegistry(s, im))
			if err != nil {
				return nil, nil, err
			}
			defer root.Close()
			src.roots = append(src.roots, root)
			inside = append([]*tree.Document{held}, inside...)
		}
		docs = append(docs, inside...)
		for _, r := range unheld(im, inside) {
			if !slices.Contains(lacking, r) {
				lacking = append(lacking, r)
			}
		}
	}
	pushed, err := mirror.Push(ctx, c, src, docs, to, mirror.PushOptions{Record: Record(s), Progress: o.Progress})
	return pushed, lacking, err
}
