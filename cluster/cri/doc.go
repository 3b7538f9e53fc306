// Package cri asks a container runtime of this machine which images and
// containers it has: by the Kubernetes Container Runtime Interface (version
// runtime.v1, and v1alpha2 of older runtimes), or by Docker's own API where
// Docker is the runtime.
package cri
