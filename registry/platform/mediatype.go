package platform

import ocispec "github.com/opencontainers/image-spec/specs-go/v1"

// Docker's media types of an image manifest (version 2, schema 2), of a manifest
// list and of an image config; see distribution's "Image Manifest Version 2,
// Schema 2". OCI's manifest, index and config took their place and read alike.
const (
	MediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	MediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	MediaTypeDockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// IsIndex reports whether mediaType is an image index or a Docker manifest list.
func IsIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == MediaTypeDockerList
}

// IsManifest reports whether mediaType is the manifest of one platform's image,
// OCI's or Docker's.
func IsManifest(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageManifest || mediaType == MediaTypeDockerManifest
}
