package store

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image/inventory"
	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
)

// annotationContainerd is where containerd and nerdctl look for an image's
// name in an archive, and where some tools write the full one.
const annotationContainerd = "io.containerd.image.name"

// SaveOptions are the options of Save.
type SaveOptions struct {
	// Platforms to save of images for several; empty saves all that the store
	// has. Of one platform without blob manifests the manifest itself is saved, with
	// its own digest; otherwise the index stays as it is.
	Platforms []ocispec.Platform
	// Without are the blobs to leave out: Load finds them in its own store. Nil
	// leaves out nothing. A blob that is listed with another size is written.
	Without inventory.Set
}

// Saved counts the content of an archive.
type Saved struct {
	Blobs, Bytes               int64 // written
	LeftOutBlobs, LeftOutBytes int64 // of the images, and not written
	// Unsigned are images of which one platform is saved: their signatures are of
	// the image for all platforms, and not written.
	Unsigned []string
}

// Save writes the images as one tar, an OCI image layout with each blob once.
// An image given by its ID is saved without a name. Equal images give an equal
// tar. With SaveOptions.Without the tar is a delta; see the package's delta.go.
func (s *Store) Save(ctx context.Context, w io.Writer, nameOrIDs []string, o SaveOptions) (Saved, error) {
	if err := s.Hold(ctx); err != nil {
		s.o.Logger.Debug("save without a lock", "error", err) // a read-only store cannot be pruned either
	}
	all, err := s.readIndex()
	if err != nil {
		return Saved{}, err
	}
	out := newIndex()
	var unsigned []string
	blobs := map[digest.Digest]int64{}
	for _, n := range nameOrIDs {
		entry, err := find(all, n)
		if err != nil {
			return Saved{}, err
		}
		name := ""
		if r, err := ref.Parse(n); err == nil && matches(entry, r) {
			name = nameOf(entry)
		}
		top, err := s.saved(ctx, entry, o, blobs)
		if err != nil {
			return Saved{}, fmt.Errorf("save %s: %w", n, err)
		}
		if name != "" {
			top.Annotations = map[string]string{ocispec.AnnotationRefName: name, annotationContainerd: name}
		}
		signatures, err := signaturesIn(entry)
		if err != nil {
			return Saved{}, fmt.Errorf("save %s: %w", n, err)
		}
		if top.Digest != entry.Digest && len(signatures) > 0 {
			unsigned = append(unsigned, n)
		} else if err := addSignatures(&top, signatures); err != nil {
			return Saved{}, fmt.Errorf("save %s: %w", n, err)
		}
		out.Manifests = append(out.Manifests, top)
	}
	files, count, err := s.leaveOut(out, blobs, o.Without)
	if err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	count.Unsigned = unsigned
	if err := s.writeArchive(ctx, w, out, files, blobs); err != nil {
		return Saved{}, fmt.Errorf("save: %w", err)
	}
	return count, nil
}

// saved adds the blobs of entry to blobs and returns the descriptors of index.json.
func (s *Store) saved(ctx context.Context, entry ocispec.Descriptor, o SaveOptions, blobs map[digest.Digest]int64) (ocispec.Descriptor, error) {
	top := entry
	top.Annotations = nil
	manifests, idx, err := s.manifests(ctx, entry)
	if err != nil {
		return top, err
	}
	if len(o.Platforms) > 0 && idx != nil {
		var chosen []ocispec.Descriptor
		for _, p := range o.Platforms {
			i := platform.Choose(p, manifests)
			if i < 0 {
				return top, fmt.Errorf("platform %s: %w: it is here for %s", platform.String(p), ErrNotFound, platformList(manifests))
			}
			chosen = append(chosen, manifests[i])
		}
		if manifests = chosen; len(chosen) == 1 {
			apart, err := s.blobManifests(ctx, chosen[0])
			if err != nil {
				return top, err
			}
			if len(apart) == 0 { // else the index lists them
				top, idx = chosen[0], nil
				top.Annotations = nil
			}
		}
	}
	blobs[top.Digest] = top.Size
	for _, m := range manifests {
		img, err := s.readImage(ctx, m)
		if err != nil {
			return top, err
		}
		for _, p := range o.Platforms {
			if idx == nil && !platform.Match(p, img.Config.Platform) {
				return top, fmt.Errorf("platform %s: %w: it is here for %s", platform.String(p), ErrNotFound, platform.String(img.Config.Platform))
			}
		}
		for _, d := range img.Descriptors() {
			blobs[d.Digest] = d.Size
		}
	}
	return top, nil
}

// A layoutFile is a small file of an archive.
type layoutFile struct {
	name    string
	content []byte
}

// writeArchive writes idx, then files, then the blobs from the store.
func (s *Store) writeArchive(ctx context.Context, w io.Writer, idx *ocispec.Index, files []layoutFile, blobs map[digest.Digest]int64) error {
	b, err := json.Marshal(idx)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	header := func(name string, size int64) error {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
	}
	// The names come first, so that who reads it as a stream knows them.
	for _, f := range append([]layoutFile{{ocispec.ImageLayoutFile, []byte(layoutContent)}, {ocispec.ImageIndexFile, b}}, files...) {
		if err := header(f.name, int64(len(f.content))); err != nil {
			return err
		}
		if _, err := tw.Write(f.content); err != nil {
			return err
		}
	}
	var order []digest.Digest
	for d := range blobs {
		order = append(order, d)
	}
	slices.Sort(order)
	for _, d := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := header(blobDir+d.Encoded(), blobs[d]); err != nil {
			return err
		}
		f, err := s.OpenBlob(ctx, d)
		if err != nil {
			return err
		}
		// A blob of another size than its descriptor says is an error of tar's.
		_, err = layer.Copy(tw, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("blob %s: %w", d, err)
		}
	}
	return tw.Close()
}

// blobDir is the directory of blobs in a layout.
const blobDir = "blobs/sha256/"
