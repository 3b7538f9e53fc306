// Package build runs a Kubefile against a build context and leaves a
// ClusterImage in the store.
//
// Build reads top to bottom as the data goes: the Kubefile is parsed, its
// variables are expanded for each platform, FROM brings the layers below, each
// COPY, ADD, APP and RUN adds a layer, discovery reads the added layers, the
// images that it found are mirrored into a registry layer, the result is
// checked for completeness, and only then becomes visible in the store.
//
// Everything that is read from the context goes through an os.Root, so that no
// path and no symbolic link leads out of it.
package build
