package mirror

import (
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// Attached returns the digests of the attachments of all images by references in
// their repositories, for Attachments.Known and for a lock file: cosign's tags, the
// indexes made here, and the single artifacts in them.
func (r *Result) Attached() map[string]digest.Digest {
	out := map[string]digest.Digest{}
	for i := range r.Images {
		im := &r.Images[i]
		if im.Err != nil {
			continue
		}
		at := ref.Reference{Registry: im.source().Registry, Repository: im.source().Repository}
		for _, a := range im.Attached {
			at.Tag = a.Tag
			out[at.String()] = a.Descriptor.Digest
			if !tree.IsReferrersTag(a.Tag) {
				continue
			}
			for _, m := range a.Manifests[:len(a.Manifests)-1] {
				at.Tag = a.Tag + "." + m.Digest.Encoded()[:32]
				out[at.String()] = m.Digest
			}
		}
	}
	return out
}

// all returns the blobs of the image and of its attachments.
func (im *Image) all() []ocispec.Descriptor {
	out := slices.Clip(im.Blobs)
	for _, a := range im.Attached {
		out = append(out, a.Blobs...)
	}
	return out
}

// dropFailed removes the attachments of im of which a blob could not be fetched.
func (e *engine) dropFailed(im *Image, failed map[digest.Digest]error) {
	im.Attached = slices.DeleteFunc(im.Attached, func(a Attached) bool {
		for _, b := range a.Blobs {
			if err := failed[b.Digest]; err != nil {
				e.note(im, fmt.Errorf("%s: %w", a.Tag, err))
				return true
			}
		}
		return false
	})
}
