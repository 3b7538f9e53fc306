package store

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

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
	// has. Of one platform the manifest itself is saved, with its own digest;
	// otherwise the index stays as it is.
	Platforms []ocispec.Platform
}

// Save writes the images as one tar, an OCI image layout with each blob once.
// An image given by its ID is saved without a name. Equal images give an equal
// tar.
func (s *Store) Save(ctx context.Context, w io.Writer, nameOrIDs []string, o SaveOptions) error {
	if err := s.Hold(ctx); err != nil {
		s.o.Logger.Debug("save without a lock", "error", err) // a read-only store cannot be pruned either
	}
	all, err := s.readIndex()
	if err != nil {
		return err
	}
	out := newIndex()
	blobs := map[digest.Digest]int64{}
	for _, n := range nameOrIDs {
		entry, err := find(all, n)
		if err != nil {
			return err
		}
		name := ""
		if r, err := ref.Parse(n); err == nil && matches(entry, r) {
			name = nameOf(entry)
		}
		top, err := s.saved(ctx, entry, o, blobs)
		if err != nil {
			return fmt.Errorf("save %s: %w", n, err)
		}
		if name != "" {
			top.Annotations = map[string]string{ocispec.AnnotationRefName: name, annotationContainerd: name}
		}
		out.Manifests = append(out.Manifests, top)
	}
	if err := s.writeArchive(ctx, w, out, blobs); err != nil {
		return fmt.Errorf("save: %w", err)
	}
	return nil
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
			top, idx = chosen[0], nil
			top.Annotations = nil
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
		for _, d := range append([]ocispec.Descriptor{m, img.Manifest.Config}, img.Manifest.Layers...) {
			blobs[d.Digest] = d.Size
		}
	}
	return top, nil
}

func (s *Store) writeArchive(ctx context.Context, w io.Writer, idx *ocispec.Index, blobs map[digest.Digest]int64) error {
	b, err := json.Marshal(idx)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	header := func(name string, size int64) error {
		return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX})
	}
	// The names come first, so that who reads it as a stream knows them.
	for _, f := range []struct {
		name    string
		content []byte
	}{{ocispec.ImageLayoutFile, []byte(layoutContent)}, {ocispec.ImageIndexFile, b}} {
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
		if err := header("blobs/sha256/"+d.Encoded(), blobs[d]); err != nil {
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

var blobEntry = regexp.MustCompile(`^(\./)?blobs/sha256/([0-9a-f]{64})$`)

// Load commits the images of a tar that Save or another tool wrote as an OCI
// image layout, compressed or not, and returns them. Nothing of it is visible
// when it fails. The error wraps ErrInvalid when r is no such tar.
func (s *Store) Load(ctx context.Context, r io.Reader) ([]Image, error) {
	idx, err := s.readArchive(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	var entries []entry
	var ids []digest.Digest
	for _, d := range idx.Manifests {
		if err := checkDigest(d.Digest); err != nil {
			return nil, fmt.Errorf("load: index.json: %w", err)
		}
		if !platform.IsIndex(d.MediaType) && !platform.IsManifest(d.MediaType) {
			return nil, fmt.Errorf("load: index.json: %w: %s is a %q", ErrInvalid, d.Digest, d.MediaType)
		}
		e := entry{desc: d}
		if n := archiveName(d); n != "" {
			e.names = []string{n}
		}
		entries = append(entries, e)
		ids = append(ids, d.Digest)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("load: %w: no image in it", ErrInvalid)
	}
	if err := s.commit(ctx, entries); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	all, err := s.Images(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(i Image) bool { return !slices.Contains(ids, i.Descriptor.Digest) }), nil
}

// archiveName returns the name of an image of an archive: the one that other tools
// write may be a bare tag, which names nothing.
func archiveName(d ocispec.Descriptor) string {
	for _, a := range []string{annotationContainerd, ocispec.AnnotationRefName} {
		n := d.Annotations[a]
		if !strings.ContainsAny(n, "/:") {
			continue
		}
		if r, err := ref.Parse(n); err == nil {
			return r.String()
		}
	}
	return ""
}

// readArchive puts the blobs of an archive into the store and returns its
// index.json.
func (s *Store) readArchive(ctx context.Context, r io.Reader) (*ocispec.Index, error) {
	plain, err := layer.Decompress(r)
	if err != nil {
		return nil, err
	}
	defer plain.Close()
	var idx *ocispec.Index
	docker := false
	tr := tar.NewReader(plain)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, layer.TarError(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue // directories; a link is no content
		}
		if m := blobEntry.FindStringSubmatch(h.Name); m != nil {
			desc := ocispec.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, m[2]), Size: h.Size}
			err = s.PutBlob(ctx, desc, func(w io.Writer) error {
				_, err := io.Copy(w, struct{ io.Reader }{tr})
				if errors.Is(err, io.ErrUnexpectedEOF) {
					err = layer.TarError(err)
				}
				return err
			})
			if err != nil {
				return nil, err
			}
			continue
		}
		switch strings.TrimPrefix(h.Name, "./") {
		case ocispec.ImageIndexFile:
			if h.Size > maxManifest {
				return nil, fmt.Errorf("%w: an index.json of %d bytes", ErrInvalid, h.Size)
			}
			idx = newIndex()
			if err := json.NewDecoder(tr).Decode(idx); err != nil {
				return nil, fmt.Errorf("%w: index.json: %w", ErrInvalid, err)
			}
		case "manifest.json":
			docker = true
		}
	}
	switch {
	case idx == nil && docker:
		return nil, fmt.Errorf("%w: it is an archive of docker save without an OCI image layout", ErrInvalid)
	case idx == nil:
		return nil, fmt.Errorf("%w: it has no index.json, so it is no OCI image layout", ErrInvalid)
	}
	return idx, nil
}
