// Package kube speaks to a Kubernetes API server with the rights of a kubeconfig
// file: JSON over plain net/http, and as much of a client as sealer needs. It
// reads the file as kubectl does, follows no redirect, and never sends a
// credential to another host than the file names.
package kube
