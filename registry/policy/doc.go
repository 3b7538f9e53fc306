// Package policy reads policy.json, the file in which podman, skopeo and CRI-O say
// which images a machine may take from registries, and judges images by it.
//
// Source: containers-policy.json(5). Of its requirements, insecureAcceptAnything,
// reject and sigstoreSigned with keys are supported. An image that falls under
// another one (signedBy, signedBaseLayer, keyless signatures) is refused, never let
// through: the rest of the file works all the same. Of the transports, docker is
// meant: sealer takes images from registries alone.
package policy
