package registry_test

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/registrytest"
	"github.com/clusterimage/sealer/registry/tree"
)

// layer is a registry layer on disk, made of registrytest's images.
type layer struct {
	dir      string
	document *tree.Document
	contents map[string]*registrytest.Content // by normalised reference
	images   []ref.Reference
}

// writeLayer makes a layer of images, all their platforms, as the mirror would.
// below are the layers whose blobs it does not repeat.
func writeLayer(t testing.TB, naming tree.Naming, images []registrytest.Image, below ...layer) layer {
	t.Helper()
	l := layer{dir: t.TempDir(), document: &tree.Document{}, contents: map[string]*registrytest.Content{}}
	repositories := map[string]*tree.Repository{}
	all := map[digest.Digest][]byte{}
	for _, img := range images {
		r, err := ref.Parse(img.Name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := registrytest.Build(img)
		if err != nil {
			t.Fatal(err)
		}
		l.contents[r.String()] = c
		l.images = append(l.images, r)
		name := naming.Repository(r)
		repo := repositories[name]
		if repo == nil {
			repo = &tree.Repository{Name: name}
			repositories[name] = repo
		}
		revisions := []ocispec.Descriptor{c.Root}
		for _, m := range c.Manifests {
			if m.Digest != c.Root.Digest {
				revisions = append(revisions, m)
			}
		}
		for i, d := range revisions {
			v := tree.Revision{Digest: d.Digest, MediaType: d.MediaType, Size: d.Size}
			if i == 0 {
				v.Sources = []string{r.String()}
			}
			if !slices.ContainsFunc(repo.Revisions, func(o tree.Revision) bool { return o.Digest == d.Digest }) {
				repo.Revisions = append(repo.Revisions, v)
			}
		}
		repo.Tags = append(repo.Tags, tree.Tag{Name: r.Tag, Digest: c.Root.Digest, Sources: []string{r.String()}})
		for d, b := range c.Blobs {
			all[d] = b
			if !slices.ContainsFunc(revisions, func(m ocispec.Descriptor) bool { return m.Digest == d }) {
				repo.Layers = append(repo.Layers, d)
			}
		}
	}
	for _, r := range repositories {
		l.document.Repositories = append(l.document.Repositories, *r)
	}
	for d, b := range all {
		if !slices.ContainsFunc(below, func(o layer) bool {
			return slices.ContainsFunc(o.document.Blobs, func(b tree.Blob) bool { return b.Digest == d })
		}) {
			l.document.Blobs = append(l.document.Blobs, tree.Blob{Digest: d, Size: int64(len(b))})
		}
	}
	if _, _, err := l.document.Encode(); err != nil {
		t.Fatal(err)
	}
	err := tree.Write(l.dir, l.document, func(d digest.Digest, path string) error { return os.WriteFile(path, all[d], 0o444) })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (l layer) content(t testing.TB, name string) *registrytest.Content {
	t.Helper()
	r, err := ref.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := l.contents[r.String()]
	if !ok {
		t.Fatalf("no image %s", r)
	}
	return c
}

// manifest decodes the first manifest of c.
func manifest(t testing.TB, c *registrytest.Content) ocispec.Manifest {
	t.Helper()
	var m ocispec.Manifest
	if err := json.Unmarshal(c.Blobs[c.Manifests[0].Digest], &m); err != nil {
		t.Fatal(err)
	}
	return m
}
