// Package cli is the command line of sealer: commands, flags, output and exit
// codes. A command fills an options struct, calls one function of a library
// package and prints its result; there is one constructor a file.
//
// Results go to stdout; progress, warnings and errors go to stderr. Usage
// faults (unknown flags, wrong number of arguments, impossible values) exit
// with 2: a command reports those that cobra cannot see with usagef.
package cli
