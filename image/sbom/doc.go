// Package sbom reads the software bills of materials that travel with the
// container images inside a ClusterImage: as referrers, under cosign's tags, and
// as BuildKit's attestations inside an image index. It writes one of the whole
// ClusterImage: Gather collects, WriteSPDX and WriteCycloneDX print.
//
// It repeats only the statements of the documents. Of an image without one it
// knows nothing, and it guesses nothing.
package sbom
