// Package cluster is the apply engine: from a ClusterImage and a Clusterfile to
// a running cluster, and back.
//
// Apply connects to every machine, asks for the facts, makes the plan (package
// plan), asks the machines which steps are done already, and runs the rest: the
// steps of one machine one after the other, machines side by side. When a step
// fails, the steps that need it are left out and all others run. Delete undoes
// the changes that the journals of the machines list.
//
// The machine that runs the engine keeps, below Options.State, for each cluster
// its Clusterfile, the small CA of its registry, and copies of the journals.
package cluster
