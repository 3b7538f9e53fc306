// Package spec is the Clusterfile: the documents that say which cluster is
// wanted, read with line numbers, merged, validated and printed back.
//
// Parse reads one file of several YAML documents into a File and reports all
// faults of it together. Merge lays files over each other: flags over the
// Clusterfile over the image's etc/Clusterfile over defaults. Validate judges
// the result as a whole. Cluster.Nodes takes the host lists apart into
// machines. A Secret is a password that no printing, logging or encoding
// reveals; only Secret.Resolve returns the value.
//
// Documents of kubeadm, kubelet and kube-proxy are kept as trees (Document),
// so that any version of kubeadm can be used. Package cluster/kubeadm gives
// them meaning.
package spec
