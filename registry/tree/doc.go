// Package tree describes a registry layer: its document, the tree on disk that
// it stands for, and the rule by which a mirrored image gets its name in the
// private registry.
//
// The document (media type MediaTypeDocument) lists repositories with their
// tags, revisions and blobs, sorted, so that equal content has an equal
// digest; that digest is the ID of the layer. Write turns a document into the
// directory layout of github.com/distribution/distribution ("docker/registry/v2"),
// where each blob is linked from wherever the caller keeps it.
package tree
