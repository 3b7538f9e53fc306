package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Registries take manifests of 4 MiB. A registry layer with so many blobs that the
// image's manifest would be longer has blob manifests: further manifests in the
// image's index, which list the blobs in its place. They are there for registries,
// which keep a blob only as long as a manifest lists it, and for programs that copy
// images. Every blob that they list is in the layer's document, too.

const (
	// MediaTypeSplitConfig is the media type of the config of a ClusterImage with
	// blob manifests. A program that does not know them refuses the config.
	MediaTypeSplitConfig = "application/vnd.sealer.clusterimage.config.v2+json"
	// ArtifactTypeBlobs is the artifactType of a blob manifest.
	ArtifactTypeBlobs = "application/vnd.sealer.registry.blobs.v1"
	// MaxBlobManifests is the most blob manifests that an image may have: each is a
	// request.
	MaxBlobManifests = 4096
)

// IsConfig reports whether mediaType is that of a ClusterImage's config. That of a
// plain image of sealer 0.9 is none.
func IsConfig(mediaType string) bool {
	return mediaType == MediaTypeConfig || mediaType == MediaTypeSplitConfig
}

// A BlobManifest names a manifest that lists blobs of a registry layer: one run of
// its document's, in their order.
type BlobManifest struct {
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"` // bytes of the manifest
}

// Descriptor returns the manifest's entry in an image index. Its platform is
// unknown/unknown, which no client chooses; of an entry without a platform some
// assume that it is for them.
func (b BlobManifest) Descriptor() ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest, Digest: b.Digest, Size: b.Size,
		Platform: &ocispec.Platform{Architecture: "unknown", OS: "unknown"},
	}
}

// BlobManifests returns the descriptors of all blob manifests of c, each once.
func (c *Config) BlobManifests() []ocispec.Descriptor {
	var out []ocispec.Descriptor
	seen := map[digest.Digest]bool{}
	for _, l := range c.Layers {
		for _, b := range l.BlobManifests {
			if !seen[b.Digest] {
				seen[b.Digest] = true
				out = append(out, b.Descriptor())
			}
		}
	}
	return out
}

// EncodeBlobManifest encodes the manifest of the first n of blobs, as many as most
// bytes take and one at least. Equal input gives equal bytes.
func EncodeBlobManifest(blobs []ocispec.Descriptor, most int64) (b []byte, n int, err error) {
	m := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: ArtifactTypeBlobs,
		Config:       emptyConfig(),
		Layers:       []ocispec.Descriptor{},
	}
	if b, err = json.Marshal(m); err != nil {
		return nil, 0, err
	}
	size := int64(len(b))
	for _, d := range blobs {
		d.Annotations = nil
		each, err := json.Marshal(d)
		if err != nil {
			return nil, 0, err
		}
		if size += int64(len(each)); n > 0 {
			size++ // the comma
		}
		if size > most && n > 0 {
			break
		}
		m.Layers = append(m.Layers, d)
		n++
	}
	b, err = json.Marshal(m)
	return b, n, err
}

// emptyConfig is the descriptor of the config of a blob manifest, {}. It does not
// hold the content: programs of before OCI 1.1 drop that as they copy.
func emptyConfig() ocispec.Descriptor {
	d := ocispec.DescriptorEmptyJSON
	d.Data = nil
	return d
}

// ErrBlobManifest is wrapped by the errors of ListedBlobs.
var ErrBlobManifest = errors.New("invalid manifest of mirrored blobs")

// ListedBlobs returns the blobs that the blob manifest b lists. want are those of
// the layer that no blob manifest before it lists: b must list the first of them.
func ListedBlobs(b []byte, want []ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBlobManifest, err)
	}
	same := func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest && a.Size == b.Size }
	switch {
	case m.MediaType != ocispec.MediaTypeImageManifest || m.ArtifactType != ArtifactTypeBlobs:
		return nil, fmt.Errorf("%w: it is a %q of the type %q", ErrBlobManifest, m.MediaType, m.ArtifactType)
	case !same(m.Config, ocispec.DescriptorEmptyJSON):
		return nil, fmt.Errorf("%w: it has a config", ErrBlobManifest)
	case len(m.Layers) == 0:
		return nil, fmt.Errorf("%w: it lists none", ErrBlobManifest)
	case len(m.Layers) > len(want) || !slices.EqualFunc(m.Layers, want[:len(m.Layers)], same):
		return nil, fmt.Errorf("%w: it does not list what its layer adds", ErrBlobManifest)
	}
	return want[:len(m.Layers)], nil
}

// EmptyConfig returns the descriptor and the content of the config that all blob
// manifests share.
func EmptyConfig() (ocispec.Descriptor, []byte) {
	return emptyConfig(), []byte("{}")
}

// Split returns the layers whose mirrored blobs are listed in blob manifests, true
// for each, so that the image's manifest, whose length is size bytes when it lists
// them all, has at most most bytes: those with the most bytes of blob descriptors,
// of equal ones the lowest.
func Split(layers []Layer, size, most int64) []bool {
	apart := make([]bool, len(layers))
	if size <= most {
		return apart
	}
	bytes := make([]int64, len(layers))
	for i, l := range layers {
		if l.IsRegistry() {
			bytes[i] = listedBytes(l.Descriptors[1:])
		}
	}
	for size > most {
		largest := 0
		for i := range layers {
			if bytes[i] > bytes[largest] {
				largest = i
			}
		}
		if len(layers) == 0 || bytes[largest] == 0 {
			break // the rest is no registry layer's
		}
		apart[largest], size, bytes[largest] = true, size-bytes[largest], 0
	}
	return apart
}

// listedBytes returns the bytes that blobs take in a manifest, after another layer.
func listedBytes(blobs []ocispec.Descriptor) int64 {
	var n int64
	for _, d := range blobs {
		d.Annotations = nil
		if b, err := json.Marshal(d); err == nil {
			n += int64(len(b)) + 1
		}
	}
	return n
}
