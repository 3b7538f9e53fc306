// Package cli is the command line of sealer: commands, flags, output and exit
// codes. A command fills an options struct, calls one function of a library
// package and prints its result. Each command has a file of its own with one
// constructor.
//
// Results go to stdout; progress, warnings and errors go to stderr. Wrong usage
// (unknown flags, wrong number of arguments, impossible values) exits with 2. A
// command reports such faults with usagef if cobra does not find them.
package cli
