package mirror

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/clusterimage/sealer/registry/platform"
	"github.com/clusterimage/sealer/registry/remote"
)

// ReferrerOf returns the entry of the artifact with the manifest b in the index of
// subject's referrers. The error wraps remote.ErrUnsupported where b names another
// subject.
func ReferrerOf(subject digest.Digest, mediaType string, b []byte) (ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return ocispec.Descriptor{}, err
	}
	if m.Subject == nil || m.Subject.Digest != subject {
		return ocispec.Descriptor{}, fmt.Errorf("it does not name %s as its subject: %w", subject, remote.ErrUnsupported)
	}
	entry := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(b), Size: int64(len(b)), ArtifactType: m.ArtifactType, Annotations: m.Annotations}
	if entry.ArtifactType == "" && !platform.IsIndex(entry.MediaType) {
		entry.ArtifactType = m.Config.MediaType
	}
	return entry, nil
}

// ReferrersIndex returns the index of the entries, which it sorts, as the referrers
// tag schema of the OCI distribution specification wants it: equal artifacts give
// equal bytes.
func ReferrersIndex(entries []ocispec.Descriptor) (ocispec.Descriptor, []byte, error) {
	slices.SortFunc(entries, func(a, b ocispec.Descriptor) int { return cmp.Compare(a.Digest, b.Digest) })
	idx := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: entries}
	b, err := json.Marshal(idx)
	return ocispec.Descriptor{MediaType: idx.MediaType, Digest: digest.FromBytes(b), Size: int64(len(b))}, b, err
}
