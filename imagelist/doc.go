// Package imagelist is discovery: it finds every image that a cluster will
// pull because of the files that a ClusterImage adds, and says of each where
// it stands, which rule found it and how sure that is.
//
// [Scan] reads a rootfs (an fs.FS): image lists, charts (rendered with Helm's
// engine), manifests, and any other file that holds Kubernetes objects. Every
// document is decoded to YAML nodes, so that lines are kept, and goes through
// the same steps: pod specs wherever they stand, image fields of custom
// resources, references split over several fields, the environment and the
// arguments of containers, the contents of ConfigMaps, and a table of
// operators that derive an image from kind and version (operators.go). A text
// that looked like an image and is none is kept with the reason. A place whose
// images the files do not tell is a [Gap].
//
// The package never touches the network. Its cost is bounded for any input:
// limits.go has the limits.
package imagelist
