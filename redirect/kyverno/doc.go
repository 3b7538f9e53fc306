// Package kyverno writes the build context of the Kyverno BaseImage: Kyverno's
// install manifest with its images sent to the private registry, a policy of
// package redirect, and the script that waits for it. Review finds policies and
// wait scripts that are known not to work.
//
// The package takes and returns bytes. Files, flags and the network belong to
// its callers.
package kyverno
