package spec

// DefaultDataRoot is the only directory of the machines that sealer works in.
const DefaultDataRoot = "/var/lib/sealer/data"

// Unsupported returns the faults, *Fault and joined, of fields that a
// Clusterfile may have, as sealer 0.9 reads them, and that sealer cannot make a
// cluster with. They are no faults of the file: it can be printed and merged.
func (f *File) Unsupported() error {
	v := &validator{f: f, doc: KindCluster}
	c := f.Cluster
	if c.DataRoot != "" && c.DataRoot != DefaultDataRoot {
		v.at("spec.dataRoot", "remove it, and mount the disk at /var/lib/sealer of each machine", "sealer's files lie in %s, not in %s", DefaultDataRoot, c.DataRoot)
	}
	if c.APIServer.Balancer == BalancerLvscare {
		v.at("spec.apiServer.balancer", "remove it for sealer's balancer on each worker, or write balancer: external with the endpoint of yours", "the balancer lvscare is not supported")
	}
	if c.Registry.External != nil {
		const remedy = "remove it: the masters serve the images; to fill a registry of your own: sealer registry push"
		v.at("spec.registry.externalRegistry", remedy, "a cluster that pulls from an external registry is not supported")
	}
	if l := c.Registry.Local; l != nil {
		if l.Username != "" {
			v.at("spec.registry.localRegistry.username", "remove username and password", "the registry on the masters serves without a login")
		}
		if l.Insecure != nil && *l.Insecure {
			v.at("spec.registry.localRegistry.insecure", "remove it: the machines trust the cluster's own CA", "the registry on the masters speaks TLS alone")
		}
	}
	return v.join()
}
