// Package printable keeps text that comes from images, registries, nodes and files
// from steering a terminal or from looking like another text.
package printable
