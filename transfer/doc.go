// Package transfer does the work that needs the store and registries together
// and is no build: it pulls and pushes ClusterImages, checks that an image is
// complete, fetches broken content again, and serves the container images inside.
//
// The name of a pulled image follows one rule, [Names], for sealer pull and for
// FROM: a reference with a digest names nothing.
package transfer
