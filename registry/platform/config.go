package platform

import (
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// IsConfig reports whether mediaType is that of a container image's config, which
// names a platform. The config of a Helm chart, a signature or another artifact
// does not.
func IsConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == MediaTypeDockerConfig
}

// OfConfig returns the platform in the config of a container image, and false
// when the config names none.
func OfConfig(config []byte) (ocispec.Platform, bool, error) {
	var p ocispec.Platform
	if err := json.Unmarshal(config, &p); err != nil {
		return p, false, fmt.Errorf("image config: %w", err)
	}
	return Normalize(p), p.Architecture != "" && p.OS != "", nil
}
