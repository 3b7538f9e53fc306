package proof

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A Carried is a ClusterImage with every digest by which a runtime may name the
// container images inside.
type Carried struct {
	Name    string        `json:"name"`
	Digest  digest.Digest `json:"digest"`
	private string
	naming  tree.Naming
	images  []mirrored
}

// mirrored is a container image inside, with its digests: of the index, of the
// manifests and of their configs.
type mirrored struct {
	image.MirroredImage
	digests []digest.Digest
}

// Blobs are the blobs of an image store. ReadBlob checks the digest of the
// bytes that it returns, and fails for a blob that is longer than limit bytes.
type Blobs interface {
	HasBlob(ctx context.Context, d digest.Digest) (bool, error)
	ReadBlob(ctx context.Context, d digest.Digest, limit int64) ([]byte, error)
}

// maxDocument bounds the manifests and configs that are read.
const maxDocument = 8 << 20

// Read returns the content of the ClusterImage name. d is the digest of its
// manifest, and c its config. Images that the config lists but that are missing
// from the ClusterImage do not count.
func Read(ctx context.Context, name string, d digest.Digest, c *image.Config, blobs Blobs) (Carried, error) {
	out := Carried{Name: name, Digest: d, private: cmp.Or(c.PrivateRegistry.Name, ref.DefaultPrivate), naming: c.PrivateRegistry.Naming}
	for _, m := range c.Images {
		if m.Missing != "" || !m.Reference.IsReference() {
			continue
		}
		digests, err := digestsOf(ctx, m.Digest, blobs)
		if err != nil {
			return Carried{}, fmt.Errorf("image %s: %s: %w", name, m.Reference, err)
		}
		out.images = append(out.images, mirrored{m, digests})
	}
	return out, nil
}

// digestsOf returns the digests of the image that d names. Manifests of an
// index that were not mirrored, such as other platforms', are left out.
func digestsOf(ctx context.Context, d digest.Digest, blobs Blobs) ([]digest.Digest, error) {
	b, err := blobs.ReadBlob(ctx, d, maxDocument)
	if err != nil {
		return nil, err
	}
	var doc struct {
		MediaType string               `json:"mediaType"`
		Config    ocispec.Descriptor   `json:"config"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d, err)
	}
	out := []digest.Digest{d}
	if !platform.IsIndex(doc.MediaType) && len(doc.Manifests) == 0 {
		return append(out, doc.Config.Digest), nil
	}
	for _, m := range doc.Manifests {
		if platform.IsIndex(m.MediaType) {
			continue // no runtime runs an index of an index
		}
		has, err := blobs.HasBlob(ctx, m.Digest)
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		b, err := blobs.ReadBlob(ctx, m.Digest, maxDocument)
		if err != nil {
			return nil, err
		}
		var manifest struct {
			Config ocispec.Descriptor `json:"config"`
		}
		if err := json.Unmarshal(b, &manifest); err != nil {
			return nil, fmt.Errorf("manifest %s: %w", m.Digest, err)
		}
		out = append(out, m.Digest, manifest.Config.Digest)
	}
	return out, nil
}

// An origin is a mirrored image of one ClusterImage.
type origin struct {
	carried *Carried
	image   *mirrored
}

// A catalog finds mirrored images by digest and by the references that a cluster
// can use for them.
type catalog struct {
	byDigest map[digest.Digest]origin
	byName   map[string][]origin // without tag and digest
}

func newCatalog(images []Carried) *catalog {
	c := &catalog{map[digest.Digest]origin{}, map[string][]origin{}}
	for i := range images {
		for j := range images[i].images {
			o := origin{&images[i], &images[i].images[j]}
			for _, d := range o.image.digests {
				if _, ok := c.byDigest[d]; !ok && ref.IsSHA256(d) {
					c.byDigest[d] = o
				}
			}
			private := o.carried.naming.Target(o.carried.private, o.image.Reference.Reference)
			for _, name := range []string{o.image.Reference.Name(), private.Name()} {
				c.byName[name] = append(c.byName[name], o)
			}
		}
	}
	return c
}

// resolve finds the image that a reference of a workload leads to: by its digest
// when it has one, else by its tag. The name must be one that the registry inside
// serves.
func (c *catalog) resolve(r ref.Reference) (origin, bool) {
	for _, o := range c.byName[r.Name()] {
		if r.Digest == "" && r.Tag == o.image.Reference.Tag {
			return o, true
		}
		for _, d := range o.image.digests {
			if r.Digest != "" && d == r.Digest {
				return o, true
			}
		}
	}
	return origin{}, false
}

// Lacks returns the references that none of the ClusterImages serves, by the name
// and tag, or the name and digest, that a runtime would ask for.
func Lacks(images []Carried, refs []ref.Reference) []ref.Reference {
	c := newCatalog(images)
	return slices.DeleteFunc(slices.Clone(refs), func(r ref.Reference) bool {
		_, ok := c.resolve(r)
		return ok
	})
}
