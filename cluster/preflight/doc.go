// Package preflight judges the facts of all nodes before anything is changed on
// one. It is pure: the same facts give the same report, and no machine is asked.
//
// A check says of each host that it is well, that it may go wrong (a warning),
// or that it cannot go well (a failure), and how to mend it. A Preflight
// document of the Clusterfile sets thresholds, and leaves checks out, each with
// a reason that the report prints.
package preflight
