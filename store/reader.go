package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/tree"
)

// A reader reads blobs, and the images that they make, from directories with a
// file for each blob, named by its hex digest. An earlier directory hides the
// later ones. A Store reads from one; Load also from the files of its archive.
type reader struct {
	dirs     []string
	document int64 // the most bytes of a registry layer document; 0 is maxRead
}

// path returns the file of the blob d, whether it exists or not.
func (r *reader) path(d digest.Digest) string {
	name := encoded(d)
	last := len(r.dirs) - 1
	for _, dir := range r.dirs[:last] {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return filepath.Join(r.dirs[last], name)
}

// HasBlob reports whether the store has the blob d.
func (r *reader) HasBlob(_ context.Context, d digest.Digest) (bool, error) {
	if err := checkDigest(d); err != nil {
		return false, err
	}
	_, err := os.Stat(r.path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for blob %s: %w", d, err)
	}
	return true, nil
}

// OpenBlob opens the blob d for reading; its length is the file's. The caller
// closes it. The error wraps ErrNotFound when the store does not have it. The
// bytes were checked when they were written; Verify checks them again.
func (r *reader) OpenBlob(_ context.Context, d digest.Digest) (*os.File, error) {
	if err := checkDigest(d); err != nil {
		return nil, err
	}
	f, err := os.Open(r.path(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", d, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open blob %s: %w", d, err)
	}
	return f, nil
}

// ReadBlob returns the content of the blob d after checking its digest. A blob
// longer than limit bytes is an error that wraps ErrInvalid.
func (r *reader) ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error) {
	f, err := r.OpenBlob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", d, err)
	}
	var content bytes.Buffer
	content.Grow(int(min(fi.Size(), limit)) + bytes.MinRead) // so that it grows no more
	if _, err := content.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, fmt.Errorf("read blob %s: %w", d, err)
	}
	b := content.Bytes()
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("read blob %s: %w: longer than %d bytes", d, ErrInvalid, limit)
	}
	if got := digest.FromBytes(b); got != d {
		return nil, fmt.Errorf("read blob %s: %w: its digest is %s", d, ErrMismatch, got)
	}
	return b, nil
}

// hasSized reports whether the blob is there with the size that it must have;
// one of another size is broken and will be replaced.
func (r *reader) hasSized(desc ocispec.Descriptor) bool {
	fi, err := os.Stat(r.path(desc.Digest))
	return err == nil && fi.Mode().IsRegular() && fi.Size() == desc.Size
}

// readJSON reads the small blob desc into v, checking size and digest.
func (r *reader) readJSON(ctx context.Context, desc ocispec.Descriptor, limit int64, v any) error {
	b, err := r.ReadBlob(ctx, desc.Digest, limit)
	if err != nil {
		return err
	}
	if int64(len(b)) != desc.Size {
		return fmt.Errorf("blob %s: %w: %d bytes, want %d", desc.Digest, ErrMismatch, len(b), desc.Size)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("blob %s: %w: %w", desc.Digest, ErrInvalid, err)
	}
	return nil
}

// manifests returns the manifests that desc stands for, itself or those of the
// index, with the index. Of an index only the entries that the store has and that are a
// platform's: attestations are not.
func (r *reader) manifests(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, *ocispec.Index, error) {
	switch {
	case platform.IsManifest(desc.MediaType):
		desc.Annotations = nil // index.json's
		return []ocispec.Descriptor{desc}, nil, nil
	case !platform.IsIndex(desc.MediaType):
		return nil, nil, fmt.Errorf("%w: %s is a %q, not a manifest or an image index", ErrInvalid, desc.Digest, desc.MediaType)
	}
	var idx ocispec.Index
	if err := r.readJSON(ctx, desc, maxManifest, &idx); err != nil {
		return nil, nil, fmt.Errorf("image index: %w", err)
	}
	var out []ocispec.Descriptor
	for _, m := range idx.Manifests {
		if err := checkDigest(m.Digest); err != nil {
			return nil, nil, fmt.Errorf("image index %s: %w", desc.Digest, err)
		}
		if !platform.IsManifest(m.MediaType) || m.Platform == nil || m.Platform.OS == "unknown" {
			continue
		}
		if has, err := r.HasBlob(ctx, m.Digest); err != nil {
			return nil, nil, err
		} else if has {
			out = append(out, m)
		}
	}
	if len(out) == 0 {
		return nil, nil, fmt.Errorf("image index %s: no manifest of it: %w", desc.Digest, ErrNotFound)
	}
	return out, &idx, nil
}

// whole reads the image whose manifest is desc and makes sure that all its blobs
// are there.
func (r *reader) whole(ctx context.Context, desc ocispec.Descriptor) (*Image, error) {
	img, err := r.readImage(ctx, desc)
	if err != nil {
		return nil, err
	}
	var missing []error
	for _, d := range img.Descriptors()[1:] {
		if !r.hasSized(d) {
			missing = append(missing, fmt.Errorf("manifest %s: blob %s of %d bytes: %w", desc.Digest, d.Digest, d.Size, ErrNotFound))
		}
	}
	return img, errors.Join(missing...)
}

// readImage reads the image whose manifest is desc: all but the names that index.json
// says of it. Every command that uses an image reads it here, so that an image that
// is no ClusterImage, which an older version or a hand put into the store, is
// refused by all of them with one error, which wraps image.ErrForeign.
func (r *reader) readImage(ctx context.Context, desc ocispec.Descriptor) (*Image, error) {
	img := &Image{ManifestDescriptor: desc}
	if err := r.readJSON(ctx, desc, maxManifest, &img.Manifest); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := &img.Manifest
	err := image.Accept(m, func() ([]byte, error) { return r.ReadBlob(ctx, m.Config.Digest, maxConfig) })
	if err == nil {
		err = r.readContent(ctx, img)
	}
	if err != nil {
		return nil, err
	}
	return img, nil
}

// readContent fills in img all but Manifest and ManifestDescriptor.
func (r *reader) readContent(ctx context.Context, img *Image) error {
	desc, m := img.ManifestDescriptor, &img.Manifest
	if m.MediaType != "" && m.MediaType != desc.MediaType {
		return fmt.Errorf("manifest %s: %w: it says that it is a %q, and its descriptor that it is a %q", desc.Digest, ErrInvalid, m.MediaType, desc.MediaType)
	}
	for _, d := range append([]ocispec.Descriptor{m.Config}, m.Layers...) {
		if err := checkDigest(d.Digest); err != nil {
			return fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
	}
	if image.IsConfig(m.Config.MediaType) {
		if err := r.readJSON(ctx, m.Config, maxConfig, &img.Config); err != nil {
			return fmt.Errorf("config: %w", err)
		}
	} else {
		img.Plain = true
		var c ocispec.Image
		if err := r.readJSON(ctx, m.Config, maxConfig, &c); err != nil {
			return fmt.Errorf("config: %w", err)
		}
		var err error
		if img.Config, err = image.FromPlain(m, &c); err != nil {
			return fmt.Errorf("manifest %s: %w: %w", desc.Digest, ErrInvalid, err)
		}
	}
	if err := img.Config.Check(); err != nil {
		return fmt.Errorf("manifest %s: %w: config: %w", desc.Digest, ErrInvalid, err)
	}
	if err := r.readLayers(ctx, img); err != nil {
		return fmt.Errorf("manifest %s: %w", desc.Digest, err)
	}
	img.Size = imageSize(img)
	return nil
}

// readLayers fills in Layers and Documents.
func (r *reader) readLayers(ctx context.Context, img *Image) error {
	rest := img.Manifest.Layers
	for i := range img.Config.Layers {
		c := &img.Config.Layers[i]
		if err := checkDigest(c.ID); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if len(rest) == 0 {
			return fmt.Errorf("%w: the config has %d layers, the manifest %d", ErrInvalid, len(img.Config.Layers), i)
		}
		l := image.Layer{ID: c.ID, Descriptors: rest[:1:1], Size: c.Size}
		if l.IsRegistry() {
			doc, err := r.readDocument(ctx, rest[0])
			if err != nil {
				return fmt.Errorf("layer %d: %w", i, err)
			}
			want := image.RegistryLayer(rest[0], doc)
			n := len(want.Descriptors)
			l.Size = want.Size
			if len(c.BlobManifests) > 0 {
				if n, err = 1, r.checkBlobManifests(ctx, img, c.BlobManifests, want.Descriptors[1:]); err != nil {
					return fmt.Errorf("layer %d: %w", i, err)
				}
				l.Descriptors = want.Descriptors
			} else if len(rest) >= n {
				l.Descriptors = rest[:n:n]
			}
			same := func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest && a.Size == b.Size }
			if c.ID != want.ID || !slices.EqualFunc(l.Descriptors, want.Descriptors, same) {
				return fmt.Errorf("layer %d: %w: the manifest does not list what registry layer %s adds", i, ErrInvalid, want.ID)
			}
			img.Documents = append(img.Documents, doc)
			rest = rest[n:]
		} else if rest = rest[1:]; len(c.BlobManifests) > 0 {
			return fmt.Errorf("layer %d: %w: it has manifests of mirrored blobs, and is no registry layer", i, ErrInvalid)
		}
		img.Layers = append(img.Layers, l)
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: the manifest has layers that the config lacks", ErrInvalid)
	}
	return nil
}

// checkBlobManifests makes sure that the blob manifests list what a layer of img
// adds, want, each blob once and in order: that bounds their number, too.
func (r *reader) checkBlobManifests(ctx context.Context, img *Image, list []image.BlobManifest, want []ocispec.Descriptor) error {
	if img.Manifest.Config.MediaType != image.MediaTypeSplitConfig {
		return fmt.Errorf("%w: manifests of mirrored blobs in a config of the type %q", ErrInvalid, img.Manifest.Config.MediaType)
	}
	for _, m := range list {
		if len(want) == 0 {
			return fmt.Errorf("%w: %s is one manifest of mirrored blobs too many", ErrInvalid, m.Digest)
		}
		b, err := r.readBlobManifest(ctx, m.Descriptor())
		if err != nil {
			return err
		}
		listed, err := image.ListedBlobs(b, want)
		if err != nil {
			return fmt.Errorf("blob %s: %w: %w", m.Digest, ErrInvalid, err)
		}
		want = want[len(listed):]
	}
	if len(want) > 0 {
		return fmt.Errorf("%w: the manifests of mirrored blobs lack %d blobs", ErrInvalid, len(want))
	}
	return nil
}

// readBlobManifest reads a blob manifest, checking size and digest.
func (r *reader) readBlobManifest(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	b, err := r.ReadBlob(ctx, desc.Digest, maxManifest)
	if err == nil && int64(len(b)) != desc.Size {
		err = fmt.Errorf("blob %s: %w: %d bytes, want %d", desc.Digest, ErrMismatch, len(b), desc.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("manifest of mirrored blobs: %w", err)
	}
	return b, nil
}

// blobManifests returns the blob manifests of the image with the manifest desc, as
// its config names them.
func (r *reader) blobManifests(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if err := r.readJSON(ctx, desc, maxManifest, &m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Config.MediaType != image.MediaTypeSplitConfig {
		return nil, nil
	}
	layers, err := r.configLayers(ctx, m.Config)
	if err != nil {
		return nil, err
	}
	return (&image.Config{Layers: layers}).BlobManifests(), nil
}

// readDocument reads a registry layer document.
func (r *reader) readDocument(ctx context.Context, desc ocispec.Descriptor) (*tree.Document, error) {
	most := cmp.Or(r.document, maxRead)
	if desc.Size > most {
		return nil, errLongDocument(most)
	}
	b, err := r.ReadBlob(ctx, desc.Digest, most)
	if err != nil {
		return nil, err
	}
	return tree.Parse(b)
}
