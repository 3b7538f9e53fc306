// Package node does the work on one machine: it runs the steps of a plan, by
// their kinds, and undoes their changes.
//
// A Kind has two halves. Check looks whether the step's result is there already
// and changes nothing. Do makes the result, and writes each change into the
// journal before making it, with the helpers of Work: a file, a link, a marked
// block of lines, a unit, a kernel parameter. Undo needs no kinds: it goes
// through the changes in the journal backwards and undoes each by its type.
//
// Run drives one step: Check, and nothing more when the result is there;
// "begin" in the journal; Do; Check again; "end". For steps whose result cannot
// be looked at, such as the commands of an image, the journal alone decides.
//
// All paths are below Machine.Root, so that a test can have a machine in a
// directory.
package node
