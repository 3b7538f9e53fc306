package registrytest

import (
	"fmt"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A DiskLayer is a registry layer that WriteLayer made.
type DiskLayer struct {
	Dir      string
	Document *tree.Document
	Images   []ref.Reference     // in the order given
	Contents map[string]*Content // by normalised reference
}

// Content returns the content of the image name. It panics when the layer lacks
// it.
func (l *DiskLayer) Content(name string) *Content {
	r, err := ref.Parse(name)
	must(err)
	c, ok := l.Contents[r.String()]
	if !ok {
		panic("registrytest: no image " + r.String())
	}
	return c
}

// WriteLayer turns dir into a registry layer with images, all their platforms, as
// a mirror of them would, without the blobs of the layers below. dir must exist
// and be empty.
func WriteLayer(dir string, naming tree.Naming, images []Image, below ...*DiskLayer) (*DiskLayer, error) {
	l := &DiskLayer{Dir: dir, Document: &tree.Document{}, Contents: map[string]*Content{}}
	repositories := map[string]*tree.Repository{}
	blobs := map[digest.Digest][]byte{}
	for _, img := range images {
		r, err := ref.Parse(img.Name)
		if err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
		c, err := Build(img)
		if err != nil {
			return nil, fmt.Errorf("write layer: %w", err)
		}
		l.Images = append(l.Images, r)
		l.Contents[r.String()] = c
		name := naming.Repository(r)
		if repositories[name] == nil {
			repositories[name] = &tree.Repository{Name: name}
		}
		addImage(repositories[name], r, c)
		for d, b := range c.Blobs {
			blobs[d] = b
		}
	}
	for _, r := range repositories {
		l.Document.Repositories = append(l.Document.Repositories, *r)
	}
	for d, b := range blobs {
		if !slices.ContainsFunc(below, func(o *DiskLayer) bool {
			return slices.ContainsFunc(o.Document.Blobs, func(b tree.Blob) bool { return b.Digest == d })
		}) {
			l.Document.Blobs = append(l.Document.Blobs, tree.Blob{Digest: d, Size: int64(len(b))})
		}
	}
	if _, _, err := l.Document.Encode(); err != nil {
		return nil, fmt.Errorf("write layer: %w", err)
	}
	if err := tree.Prepare(dir, l.Document); err != nil {
		return nil, err
	}
	return l, tree.Place(dir, l.Document, func(d digest.Digest, path string) error { return os.WriteFile(path, blobs[d], 0o444) })
}

func addImage(repo *tree.Repository, r ref.Reference, c *Content) {
	revisions := []ocispec.Descriptor{c.Root}
	for _, m := range c.Manifests {
		if m.Digest != c.Root.Digest {
			revisions = append(revisions, m)
		}
	}
	for i, d := range revisions {
		if slices.ContainsFunc(repo.Revisions, func(o tree.Revision) bool { return o.Digest == d.Digest }) {
			continue
		}
		v := tree.Revision{Digest: d.Digest, MediaType: d.MediaType, Size: d.Size}
		if i == 0 {
			v.Sources = []ref.Reference{r}
		}
		repo.Revisions = append(repo.Revisions, v)
	}
	repo.Tags = append(repo.Tags, tree.Tag{Name: r.Tag, Digest: c.Root.Digest, Sources: []ref.Reference{r}})
	for d := range c.Blobs {
		if !slices.ContainsFunc(revisions, func(m ocispec.Descriptor) bool { return m.Digest == d }) {
			repo.Layers = append(repo.Layers, d)
		}
	}
}
