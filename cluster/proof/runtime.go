package proof

import (
	"fmt"
	"slices"

	"github.com/clusterimage/sealer/cluster/cri"
)

// A Runtime is what a node's container runtime said of itself.
type Runtime struct {
	Node       string // its name in the cluster
	Images     []cri.Image
	Containers []cri.Container
	// Fault is why the runtime could not be asked; "" when it was.
	Fault string
	// Unserved are the manifests that the node's registry does not serve, each
	// with why.
	Unserved []string
	// Silent says that the node has no runtime that could be asked: its kubelet's
	// report counts.
	Silent bool
}

// Manifests are the manifests by which a cluster pulls the images inside, as
// paths of the registry's API: REPOSITORY/manifests/REFERENCE.
func (c *Carried) Manifests() []string {
	out := make([]string, 0, len(c.images))
	for _, i := range c.images {
		r := c.naming.Target(c.private, i.Reference.Reference)
		reference := r.Tag
		if r.Digest != "" {
			reference = r.Digest.String()
		}
		out = append(out, r.Repository+"/manifests/"+reference)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Private is the name of the private registry that the ClusterImage was built
// for.
func (c *Carried) Private() string { return c.private }

// runtime finds the runtime of a node that can be asked.
func (m *maker) runtime(node string) *Runtime {
	i := slices.IndexFunc(m.runtimes, func(r Runtime) bool { return r.Node == node })
	if i < 0 {
		return nil
	}
	r := &m.runtimes[i]
	for _, u := range r.Unserved {
		m.report.Unserved = append(m.report.Unserved, "node "+node+": "+u)
	}
	if r.Silent {
		return nil
	}
	return r
}

// asked looks at the images of a runtime.
func (m *maker) asked(r *Runtime) {
	if r.Fault != "" {
		m.report.Unseen = append(m.report.Unseen, "node "+r.Node+": "+r.Fault)
		return
	}
	m.report.Asked++
	for _, i := range r.Images {
		m.kept(r.Node, append(slices.Clone(i.Digests), i.ID))
	}
}

// runtimeContainers looks at the containers of the runtimes. One that its pod
// has shown to be a stranger is not named twice.
func (m *maker) runtimeContainers() {
	for _, r := range m.runtimes {
		for _, c := range r.Containers {
			at := Container{Where: "node " + r.Node, Node: r.Node, Name: c.ID, ImageID: c.Image}
			if c.Name != "" {
				at.Name = fmt.Sprintf("%s of pod %s/%s", c.Name, c.Namespace, c.Pod)
			}
			d, err := parseID(c.Image)
			if err != nil {
				m.stranger(at, err.Error())
				continue
			}
			at.Digest = d
			if _, ok := m.catalog.byDigest[d]; !ok && !m.named(c) {
				m.stranger(at, "the runtime has a container of an image that no ClusterImage carried")
			}
		}
	}
}

// named says whether the container stands among the strangers by its pod.
func (m *maker) named(c cri.Container) bool {
	where := "pod " + c.Namespace + "/" + c.Pod
	return slices.ContainsFunc(m.report.Strangers, func(s Stranger) bool { return s.Where == where && s.Name == c.Name })
}
