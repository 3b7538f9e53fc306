package registry

import (
	"context"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/registry/ref"
	"github.com/clusterimage/sealer/registry/tree"
)

// names finds the repository of the tree for a request. A request names an image
// by the tree's own names, by the names of the other naming, or by a source
// registry and its path (containerd's ?ns=). Only names that the documents and
// Options.References record are answered: a tag of one registry's image is not
// served as another registry's.
type names struct {
	tree    *layers
	private map[string]bool
	// sources maps "localhost:5000/x", and its form as a path,
	// "localhost-5000/x", to the repositories that hold that image.
	sources map[string][]source
	// paths maps "library/nginx" to every source of that path.
	paths map[string][]source
}

// A source says that a repository of the tree holds an image of this name.
type source struct {
	repository string
	name       string
	tags       map[string]bool
}

// kind is the kind of object that a request asks for.
type kind int

const (
	manifests kind = iota
	blobs
	tags
	referrers
)

// String returns the segment of the API's paths, which also names the endpoint
// in metrics.
func (k kind) String() string {
	switch k {
	case manifests:
		return "manifests"
	case blobs:
		return "blobs"
	case referrers:
		return "referrers"
	}
	return "tags"
}

// newNames records the names in the documents (lowest layer first) and in the
// references.
func newNames(t *layers, o Options) *names {
	n := &names{tree: t, private: map[string]bool{ref.DefaultPrivate: true}, sources: map[string][]source{}, paths: map[string][]source{}}
	for _, p := range o.PrivateRegistries {
		n.private[p] = true
	}
	seen := map[string]digest.Digest{} // repository:tag, decided by the highest layer
	for _, d := range slices.Backward(o.Documents) {
		for _, r := range d.Repositories {
			for _, t := range r.Tags {
				key := r.Name + ":" + t.Name
				if seen[key] == "" {
					seen[key] = t.Digest
				}
				if seen[key] == t.Digest {
					n.addAll(r.Name, t.Sources, "")
				}
			}
			for _, v := range r.Revisions {
				n.addAll(r.Name, v.Sources, v.Digest)
			}
		}
	}
	for _, r := range o.References {
		for _, repository := range repositories(r) {
			n.add(repository, r)
		}
	}
	return n
}

// repositories returns the names that r may have in a tree.
func repositories(r ref.Reference) []string {
	return []string{tree.NamingPath.Repository(r), tree.NamingFull.Repository(r)}
}

// addAll records that repository holds the images in sources, for those sources
// whose name becomes repository under one of the namings. A source with another
// name only says where the image was fetched from (NAME=SOURCE), and clients do
// not ask by it. With d, the sources of a revision, only requests for that digest
// are answered: the tag in the source may have moved since.
func (n *names) addAll(repository string, sources []ref.Reference, d digest.Digest) {
	for _, r := range sources {
		if !slices.Contains(repositories(r), repository) {
			continue
		}
		if d != "" {
			r.Tag, r.Digest = "", d
		}
		n.add(repository, r)
	}
}

func (n *names) add(repository string, r ref.Reference) {
	if r.Digest != "" && !n.has(repository, manifests, r.Digest.String()) ||
		r.Digest == "" && !n.has(repository, manifests, r.Tag) {
		return // recorded but not mirrored, or mirrored under the other naming
	}
	put := func(m map[string][]source, key string) {
		i := slices.IndexFunc(m[key], func(s source) bool { return s.repository == repository && s.name == r.Name() })
		if i < 0 {
			m[key] = append(m[key], source{repository, r.Name(), map[string]bool{}})
			i = len(m[key]) - 1
		}
		if r.Tag != "" {
			m[key][i].tags[r.Tag] = true
		}
	}
	put(n.sources, r.Name())
	if full := tree.NamingFull.Repository(r); full != r.Name() {
		put(n.sources, full)
	}
	put(n.paths, r.Repository)
}

// has reports whether repository holds a tag, a revision or a blob.
func (n *names) has(repository string, k kind, reference string) bool {
	path := tree.RepositoryPath(repository)
	d, err := digest.Parse(reference)
	switch {
	case k == blobs && err == nil:
		path = tree.LayerPath(repository, d)
	case k == manifests && err == nil:
		path = tree.RevisionPath(repository, d)
	case k == manifests:
		path = tree.TagPath(repository, reference)
	}
	_, err = n.tree.Stat(context.Background(), "/"+path)
	return err == nil
}

// find returns the repository that serves a request for name from the registry
// ns. ns is "" when the client named no registry or named this one. It returns
// false for a name that is not recorded.
func (n *names) find(ns, name string, k kind, reference string) (string, bool) {
	if ns = canonical(ns); ns != "" {
		if repository, ok := n.from(ns, name, k, reference); ok {
			return repository, true
		}
		// A hosts.toml for full names puts the registry into the path, and
		// containerd sends ns as well.
		rest, ok := strings.CutPrefix(name, tree.HostSegment(ns)+"/")
		if !ok {
			return "", false
		}
		return n.from(ns, rest, k, reference)
	}
	return n.own(name, k, reference)
}

// from is find for a client that names the source registry.
func (n *names) from(ns, name string, k kind, reference string) (string, bool) {
	if n.private[ns] {
		return n.own(name, k, reference)
	}
	return n.pick(n.sources[ns+"/"+name], k, reference)
}

// own is find for a client that asks by this registry's own names.
func (n *names) own(name string, k kind, reference string) (string, bool) {
	if n.has(name, k, reference) {
		return name, true
	}
	if repository, ok := n.pick(n.sources[name], k, reference); ok {
		return repository, true
	}
	return n.pick(n.paths[name], k, reference)
}

// pick returns the first of candidates that has reference. For a tag, candidates
// of two different registries that both have it are ambiguous: pick then returns
// false.
func (n *names) pick(candidates []source, k kind, reference string) (string, bool) {
	var fit []source
	for _, s := range candidates {
		_, err := digest.Parse(reference)
		if k == manifests && err != nil && !s.tags[reference] || !n.has(s.repository, k, reference) {
			continue
		}
		fit = append(fit, s)
	}
	if len(fit) == 0 {
		return "", false
	}
	byContent := k == blobs || k == manifests && digest.Digest(reference).Validate() == nil
	for _, s := range fit[1:] {
		if !byContent && s.name != fit[0].name {
			return "", false
		}
	}
	return fit[0].repository, true
}

// canonical maps the other names of Docker Hub to the name in references.
func canonical(registry string) string {
	switch registry {
	case "index.docker.io", "registry-1.docker.io":
		return ref.DockerHub
	}
	return registry
}
