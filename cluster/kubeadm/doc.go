// Package kubeadm makes the documents that kubeadm, kubelet and kube-proxy
// read, as trees. The values of a Clusterfile are laid over the image's
// etc/kubeadm.yml, which is laid over generated defaults. On top come the
// values that only the engine knows: names, addresses, tokens.
//
// No type of kubeadm is copied. Init and Join write the newest API version
// that the image's kubeadm knows (v1beta2 from 1.15, v1beta3 from 1.22, v1beta4
// from 1.31) and translate documents of the other versions where they differ.
// Token, certificate key and CA hash come from this package, so that nothing
// that kubeadm prints has to be parsed. Skew holds the version rules.
package kubeadm
