// Package tree describes a registry layer: its document, its tree on disk, and
// the rule that gives a mirrored image its name in the private registry.
//
// The document (media type MediaTypeDocument) lists repositories with their tags,
// revisions and blobs, sorted, so that equal content has an equal digest; that
// digest is the ID of the layer. Prepare and Place turn a document into the
// directory layout of github.com/distribution/distribution
// ("docker/registry/v2"); the caller links each blob into it.
package tree
