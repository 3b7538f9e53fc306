package proof

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/clusterimage/sealer/image"
	"github.com/clusterimage/sealer/registry/ref"
)

// A Report is the result of a proof, to be printed and kept. Lists are sorted.
type Report struct {
	Time   time.Time `json:"time"`
	Images []Carried `json:"images"`
	Pods   int       `json:"pods"`
	Nodes  int       `json:"nodes"`
	// Asked is how many of the nodes' container runtimes were asked themselves;
	// of the others counts what their kubelets report.
	Asked int `json:"asked"`

	Containers []Container `json:"containers"`           // that run or ran, and are from inside
	NodeImages []Container `json:"nodeImages,omitempty"` // that runtimes keep, and are from inside
	Workloads  []Container `json:"workloads,omitempty"`  // whose references lead to an image inside

	Strangers []Stranger `json:"strangers,omitempty"`
	// Waiting are containers that have not started yet; their references are
	// inside.
	Waiting []Container `json:"waiting,omitempty"`
	// Unserved are images inside that a registry of the cluster does not serve now,
	// each with the machine and why: a new pod could not pull them.
	Unserved []string `json:"unserved,omitempty"`
	// Unseen lists the things that could not be checked, and why.
	Unseen []string `json:"unseen,omitempty"`
}

// A Container is one place that names an image, and where the image came from.
type Container struct {
	Where     string        `json:"where"` // "pod kube-system/etcd-n1", "node n1", "Deployment default/web"
	Node      string        `json:"node,omitempty"`
	Name      string        `json:"name,omitempty"`      // of the container
	Reference string        `json:"reference,omitempty"` // as its spec has it
	ImageID   string        `json:"imageID,omitempty"`   // as the node reports it
	Digest    digest.Digest `json:"digest,omitempty"`
	// ClusterImage carried it as Mirrored, which Found asked for.
	ClusterImage string             `json:"clusterImage,omitempty"`
	Mirrored     string             `json:"mirrored,omitempty"`
	Found        []image.Provenance `json:"found,omitempty"`
}

// A Stranger is an image that no ClusterImage carried.
type Stranger struct {
	Container
	Why string `json:"why"`
}

// Proven says that every container is from inside, that all images inside are
// served, and that nothing was left unseen.
func (r *Report) Proven() bool {
	return len(r.Strangers) == 0 && len(r.Unseen) == 0 && len(r.Unserved) == 0
}

// maxListed is how many images a kubelet lists of its runtime, unless its
// nodeStatusMaxImages says otherwise.
const maxListed = 50

// Make compares the cluster behind api with images. runtimes are the container
// runtimes that were asked themselves; may be none. now is the time of the
// report. An error means that the cluster could not be looked at.
func Make(ctx context.Context, api API, images []Carried, runtimes []Runtime, now time.Time) (*Report, error) {
	m := &maker{catalog: newCatalog(images), report: &Report{Time: now.UTC().Truncate(time.Second), Images: images}, runtimes: runtimes}
	if err := list(ctx, api, "/api/v1/nodes", m.node); err != nil {
		return nil, err
	}
	for _, c := range collections() {
		err := list(ctx, api, c.path, func(w workload) { m.workload(c.kind, w) })
		if err != nil {
			return nil, err
		}
	}
	if err := list(ctx, api, "/api/v1/pods", m.pod); err != nil {
		return nil, err
	}
	m.runtimeContainers()
	m.sort()
	return m.report, nil
}

type maker struct {
	catalog  *catalog
	report   *Report
	runtimes []Runtime
}

// from completes c with the origin of its image.
func (c Container) from(o origin) Container {
	c.ClusterImage, c.Mirrored, c.Found = o.carried.Name, o.image.Reference.String(), o.image.Found
	return c
}

func (m *maker) stranger(c Container, why string) {
	m.report.Strangers = append(m.report.Strangers, Stranger{c, why})
}

// node looks at the images that a node's runtime keeps: those that it tells
// itself, else those that its kubelet reports.
func (m *maker) node(n node) {
	m.report.Nodes++
	if r := m.runtime(n.Meta.Name); r != nil {
		m.asked(r)
		return
	}
	for _, i := range n.Status.Images {
		m.kept(n.Meta.Name, i.Names)
	}
	if len(n.Status.Images) >= maxListed {
		m.report.Unseen = append(m.report.Unseen, fmt.Sprintf("node %s lists %d images and may keep more: sealer check --proof -c CLUSTER asks its runtime, or set nodeStatusMaxImages: -1 in its KubeletConfiguration", n.Meta.Name, len(n.Status.Images)))
	}
}

// kept looks at one image that a runtime keeps. The names of one entry are names
// of one content: one known digest is enough.
func (m *maker) kept(node string, names []string) {
	c := Container{Where: "node " + node, Node: node, ImageID: strings.Join(names, " ")}
	for _, name := range names {
		d, err := parseID(name)
		if err != nil {
			continue // a name with a tag
		}
		c.Digest = d
		if o, ok := m.catalog.byDigest[d]; ok {
			c.ImageID = name
			m.report.NodeImages = append(m.report.NodeImages, c.from(o))
			return
		}
	}
	if c.Digest == "" {
		m.stranger(c, "the runtime keeps an image without a digest")
		return
	}
	m.stranger(c, "the runtime keeps an image that no ClusterImage carried")
}

func (m *maker) workload(kind string, w workload) {
	if w.Meta.owned() {
		return
	}
	t := w.Spec.Template
	if j := w.Spec.JobTemplate; j != nil {
		t = j.Spec.Template
	}
	if t == nil {
		return
	}
	for _, c := range slices.Concat(t.Spec.Init, t.Spec.Containers, t.Spec.Ephemeral) {
		at := Container{Where: kind + " " + w.Meta.Namespace + "/" + w.Meta.Name, Name: c.Name, Reference: c.Image}
		if o, why := m.reference(c.Image); why != "" {
			m.stranger(at, why)
		} else {
			m.report.Workloads = append(m.report.Workloads, at.from(o))
		}
	}
}

// reference resolves a reference as the registry inside would, or says why not.
func (m *maker) reference(s string) (origin, string) {
	r, err := ref.Parse(s)
	if err != nil {
		return origin{}, err.Error()
	}
	o, ok := m.catalog.resolve(r)
	if !ok {
		return origin{}, "no ClusterImage has the reference: a new pod could not be pulled"
	}
	return o, ""
}

func (m *maker) pod(p pod) {
	m.report.Pods++
	for _, part := range []struct {
		specs    []container
		statuses []status
	}{
		{p.Spec.Init, p.Status.Init}, {p.Spec.Containers, p.Status.Containers}, {p.Spec.Ephemeral, p.Status.Ephemeral},
	} {
		for _, c := range part.specs {
			i := slices.IndexFunc(part.statuses, func(s status) bool { return s.Name == c.Name })
			var st status
			if i >= 0 {
				st = part.statuses[i]
			}
			m.container(p, c, st)
		}
		for _, s := range part.statuses { // one that the spec does not have
			if !slices.ContainsFunc(part.specs, func(c container) bool { return c.Name == s.Name }) {
				m.container(p, container{Name: s.Name}, s)
			}
		}
	}
}

// container checks a container twice: the digest of the running image, and the
// reference, which the kubelet pulls again when the container starts anew.
func (m *maker) container(p pod, c container, s status) {
	at := Container{Where: "pod " + p.Meta.Namespace + "/" + p.Meta.Name, Node: p.Spec.Node, Name: c.Name, Reference: c.Image, ImageID: s.ImageID}
	if s.ImageID == "" {
		if s.State.Running != nil || s.State.Terminated != nil || s.Last.Terminated != nil {
			m.stranger(at, "it runs or ran, and its node reports no image ID")
		} else if o, why := m.reference(c.Image); why != "" {
			m.stranger(at, why)
		} else {
			m.report.Waiting = append(m.report.Waiting, at.from(o))
		}
		return
	}
	d, err := parseID(s.ImageID)
	if err != nil {
		m.stranger(at, err.Error())
		return
	}
	at.Digest = d
	o, ok := m.catalog.byDigest[d]
	if !ok {
		m.stranger(at, "it runs an image that no ClusterImage carried")
		return
	}
	m.report.Containers = append(m.report.Containers, at.from(o))
	if p.Meta.owned() || c.Image == "" {
		return
	}
	if _, why := m.reference(c.Image); why != "" {
		m.stranger(at, why)
	}
}

func (m *maker) sort() {
	order := func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ImageID, b.ImageID), cmp.Compare(a.Reference, b.Reference))
	}
	for _, l := range [][]Container{m.report.Containers, m.report.NodeImages, m.report.Workloads, m.report.Waiting} {
		slices.SortFunc(l, order)
	}
	slices.SortFunc(m.report.Strangers, func(a, b Stranger) int {
		return cmp.Or(order(a.Container, b.Container), cmp.Compare(a.Why, b.Why))
	})
	slices.Sort(m.report.Unseen)
	slices.Sort(m.report.Unserved)
}
