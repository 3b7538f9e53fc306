// Package image defines the ClusterImage: an OCI artifact whose config is a
// [Config] and whose layers are files (rootfs layers) or mirrored container
// images (registry layers).
//
// It is a leaf: the store, the build, an apply engine and a report can all read
// the format without one another. Nothing here reads a disk or a registry.
//
// A plain OCI image that sealer 0.9 or later built is a ClusterImage, too: its
// annotations hold the content of a Config. [FromPlain] translates one, and
// [Config.Annotations] writes the annotations, so that tools of sealer 0.9 know
// the images of this one.
package image
