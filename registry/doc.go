// Package registry serves the registry layers of ClusterImages, read-only and
// straight from the store, and verifies that they are complete.
//
// NewHandler puts distribution's handlers over a storage driver that unites the
// layers' trees: directories merge, and of two tag links the higher layer's
// counts. An image is found under its repository in the tree and, through the
// sources that the layers' documents record, under its path, its full name
// (docker.io/library/nginx) and containerd's mirror protocol (?ns=docker.io),
// whichever way the tree names it. Listen makes a server of the handler. Verify
// resolves references through the same driver and the same storage code.
//
// The hosts.toml files that send containerd's pulls here are written by package
// redirect.
package registry
