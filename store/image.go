package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// An Image is a ClusterImage of the store, for one platform.
type Image struct {
	// Names are its normalised references, sorted; empty when it has none.
	Names []string
	// ID is the hex part of Descriptor's digest.
	ID string
	// Descriptor is the target of the names: a manifest, or an image index.
	Descriptor ocispec.Descriptor
	// Index is the content of Descriptor when that is an image index.
	Index *ocispec.Index
	// Platforms are the platforms that the store has of it.
	Platforms []ocispec.Platform
	// ManifestDescriptor is the manifest's descriptor: Descriptor itself, or
	// the index's entry for the platform.
	ManifestDescriptor ocispec.Descriptor
	Manifest           ocispec.Manifest
	// Config is the manifest's config. That of a plain OCI image, as sealer
	// 0.9 and later made them, is translated.
	Config image.Config
	// Plain tells that it is such a plain OCI image.
	Plain bool
	// Layers are the layers in stacking order, lowest first, one for each of
	// Config.Layers.
	Layers []image.Layer
	// Documents are the documents of the registry layers, lowest first.
	Documents []*tree.Document
	// Size is the bytes of all blobs of this platform, each counted once.
	Size int64
	// Built is when it was built: as its config says, or here. Zero is unknown: the
	// time of a build here is kept beside the image, outside its digest, and does
	// not travel.
	Built time.Time
	// Added is when it was built here or came here.
	Added time.Time
}

// LayerIDs returns the IDs of the layers, lowest first.
func (i *Image) LayerIDs() []digest.Digest {
	ids := make([]digest.Digest, len(i.Layers))
	for n, l := range i.Layers {
		ids[n] = l.ID
	}
	return ids
}

// Descriptors returns all blobs that the image consists of, some perhaps twice: its
// manifest first, its config, its layers, and the blob manifests with what they
// list.
func (i *Image) Descriptors() []ocispec.Descriptor {
	out := append([]ocispec.Descriptor{i.ManifestDescriptor, i.Manifest.Config}, i.Manifest.Layers...)
	apart := i.Config.BlobManifests()
	if len(apart) == 0 {
		return out
	}
	empty, _ := image.EmptyConfig()
	out = append(append(out, empty), apart...)
	for n, l := range i.Layers {
		if len(i.Config.Layers[n].BlobManifests) > 0 {
			out = append(out, l.Descriptors[1:]...)
		}
	}
	return out
}

// Platform returns the platform that this Image was read for.
func (i *Image) Platform() ocispec.Platform { return platformOf(i.ManifestDescriptor, i.Config) }

// Commit makes the image desc, a manifest or an image index, visible under
// names; with no names, by its ID alone. It checks that all of it is there,
// unpacks the layers that are not (of a pull, a load), flushes, and replaces
// index.json last. Of an index, platforms may be missing, but not all. An image
// that loses its last name to this one is gone, and prune takes its blobs.
func (s *Store) Commit(ctx context.Context, names []ref.Reference, desc ocispec.Descriptor) error {
	return s.commit(ctx, []entry{{names: texts(names), desc: desc}})
}

// CommitBuilt is Commit of an image that was made here, now.
func (s *Store) CommitBuilt(ctx context.Context, names []ref.Reference, desc ocispec.Descriptor) error {
	return s.commit(ctx, []entry{{names: texts(names), desc: desc, built: true}})
}

func texts(names []ref.Reference) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = n.String()
	}
	return list
}

// An entry is an image that gets names.
type entry struct {
	names []string
	desc  ocispec.Descriptor
	built bool // here, now
}

// commit makes all entries visible in one step.
func (s *Store) commit(ctx context.Context, entries []entry) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.mend(ctx); err != nil {
		return fmt.Errorf("commit image: %w", err)
	}
	for _, e := range entries {
		manifests, _, err := s.manifests(ctx, e.desc)
		if err != nil {
			return fmt.Errorf("commit image: %w", err)
		}
		for _, m := range manifests {
			img, err := s.complete(ctx, m)
			if err == nil && !e.built { // else this process has written the config
				err = s.checkSizes(ctx, e.desc, img)
			}
			if err != nil {
				return fmt.Errorf("commit image: %w", err)
			}
		}
	}
	if err := s.flush(ctx); err != nil {
		return fmt.Errorf("commit image: %w", err)
	}
	now := time.Now()
	return s.updateIndex(ctx, func(idx *ocispec.Index) error {
		for _, e := range entries {
			t := times{added: now}
			if e.built {
				t.built = now
			}
			if len(e.names) == 0 {
				setName(idx, "", e.desc, t)
			}
			for _, n := range e.names {
				setName(idx, n, e.desc, t)
			}
		}
		return nil
	})
}

// complete checks that all blobs of a manifest are there, unpacks its layers where
// they are not, and returns its image.
func (s *Store) complete(ctx context.Context, desc ocispec.Descriptor) (*Image, error) {
	in := reader{dirs: s.dirs, document: s.o.Limits.document()}
	img, err := in.whole(ctx, desc)
	if err != nil {
		return nil, err
	}
	docs := img.Documents
	for _, l := range img.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if l.IsRegistry() {
			err = s.unpackRegistry(ctx, l.ID, docs[0])
			docs = docs[1:]
		} else {
			err = s.unpackBlob(ctx, l)
		}
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", desc.Digest, err)
		}
	}
	return img, nil
}

// Image returns an image by its name ("nginx" means
// "docker.io/library/nginx:latest") or by its ID or a unique beginning of that,
// at least 4 characters. Of an image for several platforms it returns p, or
// when p is nil the one for this machine, or the first where there is none: an
// image for other machines is built and pushed here, too. The error wraps
// ErrNotFound.
func (s *Store) Image(ctx context.Context, nameOrID string, p *ocispec.Platform) (*Image, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	entry, err := find(idx, nameOrID)
	if err != nil {
		return nil, err
	}
	manifests, sub, err := s.manifests(ctx, entry)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", nameOrID, damaged(err))
	}
	chosen := manifests[0]
	if sub != nil && (p != nil || len(manifests) > 1) {
		want := platform.Default()
		if p != nil {
			want = *p
		}
		i := platform.Choose(want, manifests)
		if i < 0 && p == nil {
			i = 0
		}
		if i < 0 {
			return nil, fmt.Errorf("image %s for %s: %w: it is here for %s", nameOrID, platform.String(want), ErrNotFound, platformList(manifests))
		}
		chosen = manifests[i]
	}
	img, err := s.image(ctx, idx, entry, sub, manifests, chosen)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", nameOrID, damaged(err))
	}
	if have := img.Config.Platform; sub == nil && p != nil && !platform.Match(*p, have) {
		return nil, fmt.Errorf("image %s for %s: %w: it is here for %s", nameOrID, platform.String(*p), ErrNotFound, platform.String(have))
	}
	return img, nil
}

// image reads the image whose manifest is chosen, of entry in idx.
func (s *Store) image(ctx context.Context, idx *ocispec.Index, entry ocispec.Descriptor, sub *ocispec.Index, manifests []ocispec.Descriptor, chosen ocispec.Descriptor) (*Image, error) {
	img, err := s.readImage(ctx, chosen)
	if err != nil {
		return nil, err
	}
	t := timesOf(entry)
	img.ID, img.Index, img.Built, img.Added = entry.Digest.Encoded(), sub, t.built, t.added
	if img.Config.Created != nil {
		img.Built = *img.Config.Created
	}
	img.Descriptor = entry
	img.Descriptor.Annotations = nil
	for _, d := range idx.Manifests {
		if d.Digest == entry.Digest && nameOf(d) != "" {
			img.Names = append(img.Names, nameOf(d))
		}
	}
	slices.Sort(img.Names)
	for _, m := range manifests {
		img.Platforms = append(img.Platforms, platformOf(m, img.Config))
	}
	return img, nil
}

func platformList(manifests []ocispec.Descriptor) string {
	var out []string
	for _, m := range manifests {
		if m.Platform != nil {
			out = append(out, platform.String(*m.Platform))
		}
	}
	return strings.Join(out, ", ")
}

var idPattern = regexp.MustCompile(`^(sha256:)?[0-9a-f]{4,}$`)

// find returns the entry of index.json that nameOrID means: a name first, then
// an ID.
func find(idx *ocispec.Index, nameOrID string) (ocispec.Descriptor, error) {
	unknown := &UnknownError{Name: nameOrID}
	for _, d := range idx.Manifests {
		if n := nameOf(d); n != "" {
			unknown.Known = append(unknown.Known, n)
		}
	}
	r, perr := ref.Parse(nameOrID)
	if perr == nil {
		for _, d := range idx.Manifests {
			if matches(d, r) {
				return d, nil
			}
		}
	}
	if !idPattern.MatchString(nameOrID) {
		if perr != nil {
			return ocispec.Descriptor{}, fmt.Errorf("image: %w", perr)
		}
		return ocispec.Descriptor{}, unknown
	}
	prefix := strings.TrimPrefix(nameOrID, "sha256:")
	var found []ocispec.Descriptor
	for _, d := range idx.Manifests {
		if strings.HasPrefix(d.Digest.Encoded(), prefix) &&
			!slices.ContainsFunc(found, func(f ocispec.Descriptor) bool { return f.Digest == d.Digest }) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return ocispec.Descriptor{}, unknown
	case 1:
		return found[0], nil
	}
	return ocispec.Descriptor{}, fmt.Errorf("image %s: %d images have an ID that begins so", nameOrID, len(found))
}

// Named returns the digest of the image that r names, from index.json alone. The
// error wraps ErrNotFound.
func (s *Store) Named(r ref.Reference) (digest.Digest, error) {
	idx, err := s.readIndex()
	if err != nil {
		return "", err
	}
	d, err := find(idx, r.String())
	return d.Digest, err
}

// matches reports whether r means the entry d: a reference with a digest alone
// means any tag of that repository.
func matches(d ocispec.Descriptor, r ref.Reference) bool {
	if nameOf(d) == r.String() {
		return true
	}
	if r.Digest == "" || r.Digest != d.Digest {
		return false
	}
	have, err := ref.Parse(nameOf(d))
	return err == nil && have.Name() == r.Name() && (r.Tag == "" || r.Tag == have.Tag)
}

// Images returns all images by name, one entry for each platform that the
// store has, those without a name last. One that cannot be read is left out
// and reported in the error, together with the others.
func (s *Store) Images(ctx context.Context) ([]Image, error) {
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	var out []Image
	var errs []error
	seen := map[digest.Digest]bool{}
	for _, named := range []bool{true, false} {
		for _, entry := range idx.Manifests {
			if (nameOf(entry) != "") != named || seen[entry.Digest] {
				continue
			}
			seen[entry.Digest] = true
			images, err := s.imagesOf(ctx, idx, entry)
			out = append(out, images...)
			if err != nil {
				errs = append(errs, err)
			}
		}
	}
	return out, errors.Join(errs...)
}

// imagesOf returns the images of the entry of idx with the digest of desc, one
// for each platform that the store has. Of a damaged one it returns those before
// the damage with the error.
func (s *Store) imagesOf(ctx context.Context, idx *ocispec.Index, entry ocispec.Descriptor) ([]Image, error) {
	manifests, sub, err := s.manifests(ctx, entry)
	var out []Image
	for _, m := range manifests {
		var img *Image
		if img, err = s.image(ctx, idx, entry, sub, manifests, m); err != nil {
			break
		}
		out = append(out, *img)
	}
	if err != nil {
		return out, fmt.Errorf("image %s: %w", nameOr(entry), damaged(err))
	}
	return out, nil
}

// damaged tells a part of an image that is not there from an image that is not.
func damaged(err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

func nameOr(d ocispec.Descriptor) string {
	if n := nameOf(d); n != "" {
		return n
	}
	return d.Digest.Encoded()
}
