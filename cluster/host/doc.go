// Package host reaches one machine: this one, or another over SSH. It runs
// programs there and opens connections as seen from there, nothing else.
//
// Work on nodes goes through one session a host: package wire's protocol,
// spoken with "sealer node" on the far side. By itself, this package only
// copies that program, starts it, and runs the commands of "sealer exec".
//
// Host keys are always checked. Passwords, passphrases and keys never stand in
// an error, a log or a command line.
package host
