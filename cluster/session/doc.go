// Package session begins the work on a host: it puts the program sealer there,
// once for each version of it, starts "sealer node", and returns the connection
// to it.
//
// The program lies at DIR/sealer-DIGEST. It appears there whole or not at all:
// it is written beside, its SHA-256 is compared on the host, and only then it is
// renamed. A host that has it already costs one command. On this machine the
// running program is started, and nothing is copied.
package session
