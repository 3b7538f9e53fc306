// Package proof compares the containers and images of a cluster with the images
// that its ClusterImages carried. Every container that a node reports, init and
// ephemeral ones too, and every image that a node's runtime keeps, must have
// the digest of an index, a manifest or a config that one of the ClusterImages
// mirrored. The report then leads from the container to the file and line that
// asked for the image at build time. A container or image without such a digest
// is a stranger. So is a workload whose reference no ClusterImage has: its next
// pod could not be pulled.
//
// Digests are compared, never names: a kubelet may report another repository
// with the same content (kubernetes/kubernetes#95385). The digest that the
// kubelet reports for a container is believed. A kubelet reports 50 images at
// most; a runtime that was asked itself tells all, and its containers, which need
// not belong to a pod.
package proof
