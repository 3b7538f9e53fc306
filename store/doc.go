// Package store keeps ClusterImages on local disk. It never speaks to a
// network.
//
//	ROOT/data/overlay2/HEX/   a layer unpacked; a registry layer holds registry/docker/registry/v2/...
//	ROOT/image/               an OCI image layout; an image's name is its ref.name annotation in index.json
//	ROOT/cache/               the build's cache
//	ROOT/locks/, ROOT/tmp/    lock files; unfinished files, and the records of writing processes
//	ROOT/mounts/              records of mounts
//
// The tree of a large registry layer whose blobs are mostly in the trees of other
// layers is written when files are needed; see Tree.
//
// Start with Open. A build puts blobs (PutBlob) and layers (WriteLayer,
// WriteRegistryLayer), describes them (WriteImage, WriteIndex) and makes the
// result visible under its names with Commit. Image and Images read it back;
// Rootfs is the merged file tree of a chain of layers.
//
// # Visible content is whole
//
// Everything is written under a temporary name in ROOT/tmp that is locked with
// flock for as long as its writer lives, checked, and renamed to its place;
// index.json is replaced last, after one syncfs. A temporary that can be locked
// is garbage of a dead process. Blobs are not flushed one by one: a writer has
// a session record, itself flushed before the first rename, and Open finds the
// records of dead writers. If the machine was not restarted since, the page cache
// still has every byte; if it was, the blobs younger than the record are read
// again and the broken ones dropped.
//
// A flush that failed is written into the record. Nothing is committed then
// before everything that was published since the last good flush was read past
// the page cache and, where the disk has other content, written again.
//
// # Deletions
//
// An unpacked layer keeps deletions as the OCI image specification writes them
// into a layer: an empty file ".wh.NAME" hides NAME of the layers below, and
// ".wh..wh..opq" hides all that they have in its directory. That needs no
// privilege and works on every file system; Rootfs honours it, and OverlayDirs
// translates it for overlayfs.
package store
