// Package remote talks to container registries: it resolves references, reads
// manifests and blobs, pushes and pulls whole images, logs in and out.
//
// One Client serves all registries of a run. It keeps what would be costly to
// find out twice: connections, the scheme that an insecure registry speaks,
// challenges, tokens, and which mirror answered. Where a registry's settings
// come from is what podman and skopeo users know: registries.conf (mirrors,
// rewrites, blocked and insecure registries), the auth files of containers and
// Docker with their credential helpers, and certs.d.
//
// The protocol is the OCI distribution specification 1.1. Manifests are checked
// against their digests here. Blobs are not hashed here but where they are
// stored, while they are written, so that each byte is hashed once.
package remote
