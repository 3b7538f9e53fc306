// Package hostile makes the input that sealer must refuse or bear: images,
// archives, registries, charts and Kubefiles that lie, reach out of their place
// or take too much. Tests run the commands on it; make hostile prints the
// outcomes, which docs/security.md lists.
//
// The documents are made of maps instead of sealer's own types, which could not
// hold most of them.
package hostile
