// Package plan lists the work for each machine before anything is done.
//
// A Step is one change of one machine as data. A Plan is a graph of steps; it
// is printed, kept in a file, and executed as it stands. Make compares a
// cluster that is wanted with the facts that were gathered of the machines; it
// reads no file and asks no machine, so that equal inputs give an equal plan.
//
// A plan carries no secret. A step whose work needs a token, a key or a
// certificate names it in its arguments; the engine hands the value over when
// the step runs.
package plan
