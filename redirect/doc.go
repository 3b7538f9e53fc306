// Package redirect generates the configuration that makes a cluster pull from
// the private registry, although its pods name images by their public
// references.
//
// A Redirect selects the pulls and the naming rule. Policy writes it for one of
// four engines: a Kyverno ClusterPolicy, a Kyverno MutatingPolicy, Kubernetes'
// own MutatingAdmissionPolicy, or containerd's hosts.toml. Target applies the
// same rule to one reference. The rule is that of registry/tree, so the name a
// policy produces is the name that a registry layer serves. WaitScript writes a
// shell script that waits until a policy works; Write puts generated files into
// a directory. Package redirect/kyverno adds Kyverno's installation.
package redirect
