package image

import (
	"cmp"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// A Served is a mirrored image as a registry serves it: the reference by which
// the cluster asks for it, and every digest of its repository.
type Served struct {
	Reference ref.Reference
	Digests   []digest.Digest
}

// Served returns the images that the registry layers with the documents docs
// hold, in c's order. An image that c lists without its content is left out.
func (c *Config) Served(docs []*tree.Document) []Served {
	revisions := map[string][]digest.Digest{}
	for _, doc := range docs {
		for _, r := range doc.Repositories {
			for _, v := range r.Revisions {
				revisions[r.Name] = append(revisions[r.Name], v.Digest)
			}
		}
	}
	private := cmp.Or(c.PrivateRegistry.Name, ref.DefaultPrivate)
	var out []Served
	for _, m := range c.Images {
		if m.Missing != "" || !m.Reference.IsReference() {
			continue
		}
		digests := revisions[c.PrivateRegistry.Naming.Target(private, m.Reference.Reference).Repository]
		if slices.Contains(digests, m.Digest) {
			out = append(out, Served{Reference: m.Reference.Reference, Digests: digests})
		}
	}
	return out
}

// References returns the references of the images that c says are inside.
func (c *Config) References() []ref.Reference {
	var out []ref.Reference
	for _, m := range c.Images {
		if m.Missing == "" && m.Reference.IsReference() {
			out = append(out, m.Reference.Reference)
		}
	}
	return out
}
