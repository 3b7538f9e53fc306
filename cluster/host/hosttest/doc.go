// Package hosttest is machines that are not there: an SSH server in this
// process for each, on a port of the loopback, with users, host keys, sudo,
// files and programs that a test sets, and faults that it injects.
//
// The protocol is real, the machine behind it is not: a program is a function.
// Commands are understood as package host writes them, and not as any other
// shell text.
package hosttest
