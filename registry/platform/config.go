package platform

import (
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// mediaTypeDockerConfig is the config of Docker's image manifest, schema 2.
const mediaTypeDockerConfig = "application/vnd.docker.container.image.v1+json"

// IsConfig reports whether a config of mediaType is a container image's, which
// says what the image is for. Those of a Helm chart, a signature or another
// artifact do not.
func IsConfig(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageConfig || mediaType == mediaTypeDockerConfig
}

// OfConfig returns what the config of a container image says that it is for;
// false when it does not say it.
func OfConfig(config []byte) (ocispec.Platform, bool, error) {
	var p ocispec.Platform
	if err := json.Unmarshal(config, &p); err != nil {
		return p, false, fmt.Errorf("image config: %w", err)
	}
	return Normalize(p), p.Architecture != "" && p.OS != "", nil
}
