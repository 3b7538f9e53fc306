// Package facts collects the facts about the machine it runs on that a plan and
// a preflight need, and changes nothing. It reads files of /proc, /sys and /etc
// and asks the kernel; no program is run, so no program's output is parsed.
//
// The files are read below a root that a test can choose. Facts that only the
// kernel of this machine knows (free space, addresses, the clock's state) are
// asked with the real root alone.
//
// Its operations over package wire are in Ops, the calls of the other side in
// Ask and Matrix.
package facts
