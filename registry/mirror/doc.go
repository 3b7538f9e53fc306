// Package mirror copies container images, bytes unchanged, from their source
// registries into a sink (the store): it resolves all references, reads all
// manifests, plans which blobs are missing, copies them under one limit,
// biggest first, and describes the result as a registry layer document.
package mirror
