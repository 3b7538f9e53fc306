// Package conformance runs the pull part of the conformance suite of the OCI
// distribution specification against sealer's registry. It is a module of its
// own, so that the suite's dependencies do not become sealer's. "make
// conformance" runs it.
package conformance
