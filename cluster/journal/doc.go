// Package journal records the changes that sealer makes to a machine, so that a
// later run can go on after a crash and a delete can undo all of them.
//
// A journal is a directory:
//
//	journal       JSON records, one a line, each flushed before work goes on
//	saved/DIGEST  the content of files that were replaced
//	lock          the process that works on the machine, and its start
//
// A step writes Begin, then a Changed record before each change that it makes,
// then End. The journal therefore names every change, and perhaps one that a
// crash prevented: undoing that one is harmless. When the journal is opened, a
// last line that a power failure tore is cut off.
//
// The package changes nothing but its directory. Package cluster/node makes the
// changes and undoes them.
package journal
