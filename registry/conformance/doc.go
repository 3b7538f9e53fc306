// Package conformance runs the pull part of the conformance suite of the OCI
// distribution specification against sealer's registry. It is a module of its
// own, so that what the suite needs is no dependency of sealer. "make
// conformance" runs it.
package conformance
