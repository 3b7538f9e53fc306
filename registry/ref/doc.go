// Package ref parses, normalises and prints references to container images:
// [registry/]repository[:tag][@digest].
//
// Normalisation follows Docker: "nginx" is docker.io/library/nginx:latest, and
// a reference that has a digest gets no default tag. Everything in sealer that
// compares, stores or sends a reference goes through this package, so that
// there is one reading of it. The grammar is the one of
// github.com/distribution/reference.
package ref
