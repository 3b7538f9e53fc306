// Package containerd is a client of a node's containerd, as far as images go: it
// puts blobs into the content store, keeps them from garbage collection and gives
// images their names. Unpacking is left to the container runtime, which does it
// when a container first needs the image.
//
// It encodes the few messages by hand: containerd's own client brings packages for
// services that are not used here. The messages are those of
// github.com/containerd/containerd/api, which is stable since containerd 1.0.
package containerd
