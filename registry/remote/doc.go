// Package remote talks to container registries: it resolves references, reads
// manifests and blobs, pushes and pulls whole images, logs in and out.
//
// One Client serves all registries of a run. It keeps state that is costly to get
// twice: connections, the scheme that an insecure registry speaks, challenges,
// tokens, and the mirror that answered. The settings of a registry come from the
// files that podman and skopeo users know: registries.conf (mirrors, rewrites,
// blocked and insecure registries), the auth files of containers and Docker with
// their credential helpers, and certs.d.
//
// The protocol is the OCI distribution specification 1.1. Manifests are checked
// against their digests here. Blobs are hashed by the sink, while it writes them,
// so that each byte is hashed once.
package remote
