package sbom

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// maxSoftware bounds the packages of all images of a ClusterImage.
const maxSoftware = 1_000_000

// A Source is a ClusterImage for one platform, as a store has it.
type Source struct {
	Name      string             // as the reader knows it
	Manifest  ocispec.Descriptor // of the platform
	Config    *image.Config
	Layers    []image.Layer
	Documents []*tree.Document // of the registry layers, lowest first
	Rootfs    fs.FS            // the merged files; a registry tree in it is left out
	Blobs     Blobs
}

// An Inventory is the content of a ClusterImage for one platform. Each list is
// sorted.
type Inventory struct {
	Name     string
	Digest   digest.Digest // of the manifest
	Platform ocispec.Platform
	Created  time.Time // zero where the image does not say
	Layers   []Layer   // in stacking order
	Files    []File    // of the merged rootfs, by path
	Charts   []Chart   // by path
	Images   []Image   // by reference

	// Unread are the artifacts and charts that could not be read.
	Unread []error
	// Listed counts the images that the ClusterImage lists and does not hold.
	Listed int
}

// A Layer of the ClusterImage.
type Layer struct {
	ID    digest.Digest
	Type  string // FROM, COPY, RUN or BASE
	Value string
}

// A File of the rootfs. The digests are hexadecimal.
type File struct {
	Path         string // with slashes, relative
	SHA1, SHA256 string
}

// A Chart is a Helm chart among the files: a directory or an archive.
type Chart struct {
	Path    string
	Name    string
	Version string
	// SHA256 is in hexadecimal: of an archive the file's, of a directory that of
	// the lines "DIGEST  PATH\n" of its files as sha256sum prints them, sorted by
	// path, each relative to the directory.
	SHA256  string
	License string // of the annotation artifacthub.io/license; "" for none
}

// An Image is a container image inside.
type Image struct {
	Reference ref.Reference
	Digest    digest.Digest // of the manifest or index
	Platforms []string
	// SBOMs are the artifacts that describe the software of the image: none when
	// nobody has listed its content.
	SBOMs    []digest.Digest
	Packages []Package
}

// Without counts the images that have no SBOM.
func (i *Inventory) Without() (n int) {
	for _, m := range i.Images {
		if len(m.SBOMs) == 0 {
			n++
		}
	}
	return n
}

// Gather reads src. An artifact that cannot be read is named in Unread; a rootfs
// that cannot be read is an error.
func Gather(ctx context.Context, src Source) (*Inventory, error) {
	out := &Inventory{Name: src.Name, Digest: src.Manifest.Digest, Platform: src.Config.Platform}
	if src.Config.Created != nil {
		out.Created = src.Config.Created.UTC()
	}
	for i, l := range src.Layers {
		layer := Layer{ID: l.ID}
		if i < len(src.Config.Layers) {
			layer.Type, layer.Value = src.Config.Layers[i].Type, src.Config.Layers[i].Value
		}
		out.Layers = append(out.Layers, layer)
	}
	out.images(src)
	if err := out.software(ctx, src); err != nil {
		return nil, err
	}
	if src.Rootfs != nil {
		if err := out.files(ctx, src.Rootfs); err != nil {
			return nil, fmt.Errorf("files of %s: %w", src.Name, err)
		}
	}
	return out, nil
}

// images adds the container images: those of the config, and those that only the
// registry layers name.
func (i *Inventory) images(src Source) {
	held := map[string]digest.Digest{} // by reference
	refs := map[string]ref.Reference{}
	add := func(sources []ref.Reference, d digest.Digest) {
		for _, r := range sources {
			if tree.IsAttachmentTag(r.Tag) {
				continue
			}
			held[r.String()], refs[r.String()] = d, r
		}
	}
	for _, doc := range src.Documents {
		for _, r := range doc.Repositories {
			for _, v := range r.Revisions {
				add(v.Sources, v.Digest)
			}
			for _, t := range r.Tags {
				add(t.Sources, t.Digest)
			}
		}
	}
	seen := map[string]bool{}
	for _, m := range src.Config.Images {
		name := m.Reference.String()
		if seen[name] {
			continue
		}
		seen[name] = true
		d := cmp.Or(m.Digest, held[name])
		delete(refs, name)
		if m.Missing != "" || !m.Reference.IsReference() || !ref.IsSHA256(d) {
			i.Listed++
			continue
		}
		i.Images = append(i.Images, Image{Reference: m.Reference.Reference, Digest: d, Platforms: m.Platforms})
	}
	for name, r := range refs {
		i.Images = append(i.Images, Image{Reference: r, Digest: held[name]})
	}
	slices.SortFunc(i.Images, func(a, b Image) int { return cmp.Compare(a.Reference.String(), b.Reference.String()) })
}

// software adds the statements of the SBOMs to the images.
func (i *Inventory) software(ctx context.Context, src Source) error {
	found, errs := Find(ctx, src.Documents, src.Blobs)
	i.Unread = append(i.Unread, errs...)
	by := map[digest.Digest][]*Image{} // the images that have the manifest
	for n := range i.Images {
		m := &i.Images[n]
		for _, d := range manifests(ctx, src.Blobs, m.Digest) {
			by[d] = append(by[d], m)
		}
	}
	total := 0
	read := map[digest.Digest][]Package{}
	for _, a := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		packages, known := read[a.Digest]
		if !known && len(a.Content) > 0 && len(by[a.Subject]) > 0 {
			docs, err := a.Read(ctx, src.Blobs)
			if err != nil {
				i.Unread = append(i.Unread, err)
			}
			if len(docs) == 0 {
				continue
			}
			for _, d := range docs {
				packages = append(packages, d.Packages...)
			}
			read[a.Digest], known = packages, true
		}
		if !known {
			continue
		}
		for _, m := range by[a.Subject] {
			if slices.Contains(m.SBOMs, a.Digest) {
				continue
			}
			if total += len(packages); total > maxSoftware {
				return fmt.Errorf("%w: the images of %s name more than %d packages", ErrTooLarge, i.Name, maxSoftware)
			}
			m.SBOMs = append(m.SBOMs, a.Digest)
			m.Packages = append(m.Packages, packages...)
		}
	}
	for n := range i.Images {
		d := Document{Packages: i.Images[n].Packages}
		d.sort()
		i.Images[n].Packages = d.Packages
		slices.Sort(i.Images[n].SBOMs)
	}
	return nil
}

// manifests returns d and, of an index, the manifests that it lists.
func manifests(ctx context.Context, blobs Blobs, d digest.Digest) []digest.Digest {
	out := []digest.Digest{d}
	b, err := blobs.ReadBlob(ctx, d, maxManifest)
	if err != nil {
		return out // of an image of sealer 0.9, whose manifest is a file
	}
	var m manifest
	if json.Unmarshal(b, &m) != nil {
		return out
	}
	for _, child := range m.Manifests {
		if !slices.Contains(out, child.Digest) {
			out = append(out, child.Digest)
		}
	}
	return out
}
