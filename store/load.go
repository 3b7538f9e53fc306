package store

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/layer"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/sign"
)

// Load commits the images of a tar that Save or another tool wrote as an OCI
// image layout, compressed or not, and returns them. It takes only the blobs that
// index.json reaches. When it fails, nothing of the tar stays: it then ends the
// writing of this Store, as Prune does. The error wraps ErrInvalid when r is no
// such tar, image.ErrForeign when an image in it is no ClusterImage, ErrNotFound when neither the tar nor the store has a blob, and ErrLacks
// when the tar is a delta and the store lacks a blob that was left out.
func (s *Store) Load(ctx context.Context, r io.Reader) ([]Image, error) {
	return s.LoadIf(ctx, r, nil)
}

// LoadIf is Load of an archive of which judge accepts every image, by its descriptor
// and the signatures that came with it. An error of judge ends the loading, before
// the blobs where index.json comes first, as Save writes it.
func (s *Store) LoadIf(ctx context.Context, r io.Reader, judge func(name string, d digest.Digest, signatures []sign.Signature) error) ([]Image, error) {
	entries, err := s.loadArchive(ctx, r, judge)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	var out []Image
	seen := map[digest.Digest]bool{}
	for _, d := range idx.Manifests {
		loaded := slices.ContainsFunc(entries, func(e entry) bool { return e.desc.Digest == d.Digest })
		if !loaded || seen[d.Digest] {
			continue
		}
		seen[d.Digest] = true
		images, err := s.imagesOf(ctx, idx, d)
		if err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
		out = append(out, images...)
	}
	return out, nil
}

func (s *Store) loadArchive(ctx context.Context, r io.Reader, judge func(string, digest.Digest, []sign.Signature) error) (_ []entry, err error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	a := &archive{s: s, judge: judge, wanted: map[digest.Digest]bool{}, placed: map[string]bool{}}
	if a.dir, err = s.tempDir("load"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, discard(a.dir)) }()
	a.reader = reader{dirs: []string{a.path("blobs"), s.dirs[0]}, document: s.o.Limits.document()}
	for _, dir := range []string{"blobs", "layers"} {
		if err := os.Mkdir(a.path(dir), 0o700); err != nil {
			return nil, err
		}
	}
	if err := a.read(ctx, r); err != nil {
		return nil, err
	}
	entries, err := a.entries()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := a.check(ctx, e.desc); err != nil {
			return nil, err
		}
	}
	if err = a.publish(ctx); err == nil {
		err = s.commit(ctx, entries)
	}
	if err != nil {
		a.retract(ctx)
		return nil, err
	}
	return entries, nil
}

// An archive is a tar that Load reads. Its content lies in a temporary directory
// until all of it is checked, so that a bad tar leaves nothing.
type archive struct {
	s         *Store
	dir       *lockedDir     // blobs/HEX, and layers/HEX unpacked
	reader                   // the tar's blobs, and below them the store's
	index     *ocispec.Index // index.json
	order     []digest.Digest
	wanted    map[digest.Digest]bool // the digests of order, which index.json reaches
	layers    []digest.Digest        // unpacked in dir
	placed    map[string]bool        // paths in the store that were not there before
	completes bool                   // of a delta: the store has the blobs that were left out
	judge     func(string, digest.Digest, []sign.Signature) error
}

func (a *archive) path(elem ...string) string {
	return filepath.Join(append([]string{a.dir.Name()}, elem...)...)
}

// maxArchive bounds the entries of an archive, maxImages the images that its
// index.json names: each name costs a look at all.
const (
	maxArchive = 1_000_000
	maxImages  = 10_000
)

var blobEntry = regexp.MustCompile(`^(\./)?blobs/sha256/([0-9a-f]{64})$`)

// read unpacks the tar r.
func (a *archive) read(ctx context.Context, r io.Reader) error {
	plain, err := layer.Decompress(r)
	if err != nil {
		return err
	}
	defer plain.Close()
	docker := false
	most := cmp.Or(a.s.o.Limits.Layer.Entries, maxArchive)
	tr := tar.NewReader(plain)
	for n := int64(0); ; n++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := tr.Next()
		if err == io.EOF {
			// A compression, an encryption and a part have their checks at the end.
			if _, err := io.Copy(io.Discard, plain); err != nil {
				return layer.TarError(err)
			}
			return a.isLayout(docker)
		}
		if err != nil && n == 0 && errors.Is(layer.TarError(err), layer.ErrInvalid) {
			return fmt.Errorf("it does not begin as a tar does: it is no archive of sealer save, or was cut off: %w", layer.TarError(err))
		}
		if err != nil {
			return layer.TarError(err)
		}
		if n >= most {
			return fmt.Errorf("%w: %w: the archive has more than %d entries", ErrInvalid, ErrLimit, most)
		}
		docker = docker || strings.TrimPrefix(h.Name, "./") == "manifest.json"
		if err := a.entry(h, tr); err != nil {
			return err
		}
	}
}

// entry takes one entry of the tar, whose content is r: a blob, or index.json.
func (a *archive) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag != tar.TypeReg {
		return nil // directories; a link is no content
	}
	if m := blobEntry.FindStringSubmatch(h.Name); m != nil {
		desc := ocispec.Descriptor{Digest: digest.NewDigestFromEncoded(digest.SHA256, m[2]), Size: h.Size}
		take := a.blob
		if a.leftOut() == desc.Digest {
			take = a.checkDelta
		}
		if err := take(desc, r); err != nil {
			return fmt.Errorf("blob %s: %w", desc.Digest, err)
		}
		return nil
	}
	if strings.TrimPrefix(h.Name, "./") != ocispec.ImageIndexFile {
		return nil
	}
	if h.Size > maxManifest {
		return fmt.Errorf("%w: an index.json of %d bytes", ErrInvalid, h.Size)
	}
	a.index = newIndex()
	if err := json.NewDecoder(r).Decode(a.index); err != nil {
		return fmt.Errorf("%w: index.json: %w", ErrInvalid, err)
	}
	if len(a.index.Manifests) > maxImages {
		return fmt.Errorf("%w: its index.json has more than %d images: save them as several archives", ErrInvalid, maxImages)
	}
	return a.judged()
}

// isLayout returns an error when the tar that was read has no layout, or is a delta
// that does not say what it leaves out. docker: it has a manifest.json, as docker
// save writes.
func (a *archive) isLayout(docker bool) error {
	switch {
	case a.index == nil && docker:
		return fmt.Errorf("%w: it is an archive of docker save without an OCI image layout", ErrInvalid)
	case a.index == nil:
		return fmt.Errorf("%w: it has no index.json, so it is no OCI image layout", ErrInvalid)
	case a.leftOut() != "" && !a.completes:
		return fmt.Errorf("%w: a delta without the list of the blobs that were left out, or not before the others", ErrInvalid)
	}
	return nil
}

// judged lets the caller of LoadIf judge the images of index.json.
func (a *archive) judged() error {
	if a.judge == nil {
		return nil
	}
	for _, d := range a.index.Manifests {
		list, err := signaturesIn(d)
		if err != nil {
			return fmt.Errorf("index.json: %w", err)
		}
		name := archiveName(d)
		if name == "" {
			name = d.Digest.String()
		}
		if err := a.judge(name, d.Digest, list); err != nil {
			return err
		}
	}
	return nil
}

// blob writes a blob of the tar that neither the store nor dir has.
func (a *archive) blob(desc ocispec.Descriptor, r io.Reader) (err error) {
	if a.s.hasSized(desc) || a.hasSized(desc) {
		return nil
	}
	if err := a.s.fits(desc.Size); err != nil {
		return err
	}
	f, err := os.OpenFile(a.path("blobs", desc.Digest.Encoded()), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := newBlobWriter(f, desc.Size)
	if _, err := w.ReadFrom(r); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = layer.TarError(err)
		}
		return cmpDisk(w.err, err)
	}
	if got := w.digest(); got != desc.Digest {
		return fmt.Errorf("%w: its digest is %s", ErrMismatch, got)
	}
	return errors.Join(settleFile(f), f.Chmod(0o444))
}

// entries returns the images of index.json.
func (a *archive) entries() ([]entry, error) {
	var out []entry
	for _, d := range a.index.Manifests {
		if err := checkDigest(d.Digest); err != nil {
			return nil, fmt.Errorf("index.json: %w", err)
		}
		if !platform.IsIndex(d.MediaType) && !platform.IsManifest(d.MediaType) {
			return nil, fmt.Errorf("index.json: %w: %s is a %q", ErrInvalid, d.Digest, d.MediaType)
		}
		e := entry{desc: d}
		if n := archiveName(d); n != "" {
			e.names = []string{n}
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no image in it", ErrInvalid)
	}
	return out, nil
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

// check makes sure that an image is whole, notes its blobs, and unpacks those
// layers that the store lacks.
func (a *archive) check(ctx context.Context, desc ocispec.Descriptor) error {
	manifests, idx, err := a.manifests(ctx, desc)
	if err != nil {
		return err
	}
	a.want(desc)
	if idx != nil {
		a.want(idx.Manifests...) // attestations too, as far as they are there
	}
	for _, m := range manifests {
		img, err := a.whole(ctx, m)
		if err != nil {
			return err
		}
		a.want(img.Descriptors()...)
		for _, l := range img.Layers {
			if a.s.hasLayer(l.ID) || slices.Contains(a.layers, l.ID) {
				continue
			}
			if a.placed[a.s.LayerDir(l.ID)] = true; l.IsRegistry() {
				continue // commit makes it, of links to the blobs
			}
			dir := a.path("layers", l.ID.Encoded())
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil {
				return err
			}
			if err := a.s.unpack(ctx, &a.reader, l, dir); err != nil {
				return fmt.Errorf("manifest %s: %w", m.Digest, err)
			}
			a.layers = append(a.layers, l.ID)
		}
	}
	return nil
}

// want notes blobs that index.json reaches.
func (a *archive) want(descs ...ocispec.Descriptor) {
	for _, d := range descs {
		if !a.wanted[d.Digest] {
			a.wanted[d.Digest] = true
			a.order = append(a.order, d.Digest)
		}
	}
}

// publish gives the blobs and layers that the store lacks their places.
func (a *archive) publish(ctx context.Context) error {
	for _, d := range a.order {
		if err := ctx.Err(); err != nil {
			return err
		}
		fi, err := os.Lstat(a.path("blobs", d.Encoded()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the store has it
		}
		if err != nil {
			return err
		}
		if err := a.adopt(ctx, ocispec.Descriptor{Digest: d, Size: fi.Size()}); err != nil {
			return fmt.Errorf("blob %s: %w", d, err)
		}
	}
	for _, id := range a.layers {
		if a.s.hasLayer(id) {
			continue // another process was faster
		}
		if err := a.s.publishDir(ctx, a.path("layers", id.Encoded()), id); err != nil {
			return err
		}
	}
	return nil
}

// adopt renames a blob of the tar to its place, unless another process has written
// it meanwhile: two files of one blob would take the disk twice.
func (a *archive) adopt(ctx context.Context, desc ocispec.Descriptor) (err error) {
	f, err := a.s.claim(ctx, "blob-"+desc.Digest.Encoded(), func() bool { return a.s.hasSized(desc) })
	if err != nil || f == nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(f)) }()
	to := a.s.BlobPath(desc.Digest)
	a.placed[to] = true
	return a.s.publish(ctx, a.path("blobs", desc.Digest.Encoded()), to)
}

// retract removes the content that publish has placed and no image needs. While
// another process uses the store, that may need it: then the next prune takes it.
func (a *archive) retract(ctx context.Context) {
	brought := func(g Garbage) bool { return a.placed[g.Path] }
	if _, err := a.s.prune(context.WithoutCancel(ctx), PruneOptions{}, brought); err != nil {
		a.s.o.Logger.Warn("a failed load leaves content for sealer prune", "error", err)
	}
}
