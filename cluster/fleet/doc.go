// Package fleet is all machines of a Clusterfile at once: reached over SSH or,
// where an address is this machine's own, without; and told to run a command.
//
// Work on many machines is bounded, and its results and errors come in the order
// of the Clusterfile, all of them.
package fleet
