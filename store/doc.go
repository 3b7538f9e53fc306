// Package store keeps ClusterImages on local disk: layers unpacked under
// data/overlay2, an OCI image layout under image, registry trees as hard links
// to its blobs. It never speaks to a network.
package store
