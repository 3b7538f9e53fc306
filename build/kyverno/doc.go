// Package kyverno writes the redirect: what makes a cluster ask the private
// registry for the images that its pods name by their public references.
//
// Policy generates it for one of four engines (a Kyverno ClusterPolicy, a
// Kyverno MutatingPolicy, Kubernetes' own MutatingAdmissionPolicy, containerd's
// hosts.toml) from one Redirect, whose Target says under which name a reference
// is asked for: the naming rule of registry/tree, so that the policy's output is
// the name that the registry layer serves. Context writes the build context of
// the Kyverno BaseImage around such a policy. Review warns of policies and wait
// scripts that are known not to work.
//
// The package reads and writes bytes; files, flags and the network belong to
// its callers.
package kyverno
