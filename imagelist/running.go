package imagelist

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// Collections lists the objects of an API server: of /api/v1/pods each pod, as
// JSON.
type Collections interface {
	List(ctx context.Context, path string, each func(object json.RawMessage) error) error
}

// collections are the kinds whose objects have pods, and those with nodes' lists
// of images.
var collections = []struct{ prefix, name, kind string }{
	{"/api/v1", "pods", "Pod"}, {"/api/v1", "replicationcontrollers", "ReplicationController"}, {"/api/v1", "podtemplates", "PodTemplate"},
	{"/apis/apps/v1", "deployments", "Deployment"}, {"/apis/apps/v1", "statefulsets", "StatefulSet"}, {"/apis/apps/v1", "daemonsets", "DaemonSet"},
	{"/apis/batch/v1", "jobs", "Job"}, {"/apis/batch/v1", "cronjobs", "CronJob"}, {"/api/v1", "nodes", "Node"},
}

var unlistedGap = cause{Open, "cluster", "", "let this user list them, or name one namespace"}

// ScanCluster finds the images of a running cluster: those of its pods and of
// the objects that make pods, in one namespace or, for "", in all, and as
// optional ones those that the nodes have besides. A reference that the pods run
// with one digest is pinned to it. Findings name objects and fields, no lines.
// A collection that cannot be listed is a gap; the error is that of a server
// that answers nothing at all.
func ScanCluster(ctx context.Context, api Collections, namespace string, o Options) (*Result, error) {
	s := newScanner(ctx, o)
	s.o.Lenient = true
	s.res.PrivateRegistry = o.PrivateRegistry
	r := running{s: s, pins: map[string]map[digest.Digest]bool{}}
	var errs []error
	for _, c := range collections {
		path := c.prefix + "/" + c.name
		switch {
		case namespace != "" && c.kind == "Node":
			continue
		case namespace != "":
			path = c.prefix + "/namespaces/" + namespace + "/" + c.name
		}
		err := api.List(ctx, path, func(object json.RawMessage) error { return r.object(c.kind, object) })
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("list %s: %w", c.name, err))
			s.addGap(unlistedGap, Gap{Subject: c.name, File: "cluster", Text: c.name, Reason: "cannot be listed: " + err.Error()})
		}
	}
	if s.res.Documents == 0 && len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.pin()
	r.onNodes()
	for i := range s.res.Found {
		s.res.Found[i].Line = 0
	}
	s.applyRules()
	s.lowGaps()
	s.declareGaps()
	s.res.sort()
	return s.res, s.err()
}

// running collects the images of a running cluster.
type running struct {
	s     *scanner
	pins  map[string]map[digest.Digest]bool // digests that pods run a reference with
	nodes []nodeList
}

// nodeList are the names of one image on a node.
type nodeList struct {
	node  string
	names []string
}

// object takes one object of a list, whose kind only the list says.
func (r *running) object(kind string, content json.RawMessage) error {
	nodes, err := parseJSON(content)
	if err != nil || len(nodes) != 1 || check(nodes[0]) != nil {
		return fmt.Errorf("an object that cannot be read: %w", cmp.Or(err, errTooLarge))
	}
	n := nodes[0]
	r.s.res.Documents++
	if kind == "Node" {
		for _, im := range items(get(n, "status", "images")) {
			r.nodes = append(r.nodes, nodeList{text(n, "metadata", "name"), scalars(get(im, "names"))})
		}
		return nil
	}
	r.s.object(place{file: "cluster"}, n, kind)
	if kind == "Pod" {
		r.digests(n)
	}
	return nil
}

// digests notes which content the containers of a pod run. The ID of an image
// has a digest of the registry unless the image was built or loaded on the node.
func (r *running) digests(pod *yaml.Node) {
	images := map[string]string{} // by the container's name
	for _, list := range containerLists {
		for _, ct := range items(get(pod, "spec", list)) {
			images[text(ct, "name")] = text(ct, "image")
		}
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"} {
		for _, st := range items(get(pod, "status", list)) {
			_, d, ok := strings.Cut(text(st, "imageID"), "@")
			if digest, err := digest.Parse(d); ok && err == nil {
				r.note(images[text(st, "name")], digest)
			}
		}
	}
}

func (r *running) note(image string, d digest.Digest) {
	name, err := ref.Parse(image)
	if err != nil || name.Digest != "" {
		return
	}
	if r.pins[name.String()] == nil {
		r.pins[name.String()] = map[digest.Digest]bool{}
	}
	r.pins[name.String()][d] = true
}

// pin gives every reference the digest that it runs with, all of them where the
// tag has moved between two pods.
func (r *running) pin() {
	var out []Finding
	for _, f := range r.s.res.Found {
		digests := slices.Sorted(maps.Keys(r.pins[f.Reference.String()]))
		if len(digests) > 1 {
			r.s.warn("%s runs with %d digests: the tag has moved", f.Reference, len(digests))
		}
		for _, d := range digests {
			g := f
			g.Reference.Digest = d
			g.Source = g.Reference
			out = append(out, g)
		}
		if len(digests) == 0 {
			out = append(out, f)
		}
	}
	r.s.res.Found = out
}

// onNodes adds the images of the nodes that no object names.
func (r *running) onNodes() {
	known := map[string]bool{}
	for _, f := range r.s.res.Found {
		bare := f.Reference
		bare.Digest = ""
		known[bare.String()] = true
		if f.Reference.Digest != "" {
			known[f.Reference.Digest.String()] = true
		}
	}
	for _, im := range r.nodes {
		var image ref.Reference
		there := false
		for _, name := range im.names {
			n, err := ref.Parse(name)
			if err != nil {
				continue
			}
			there = there || known[n.String()] || n.Digest != "" && known[n.Digest.String()]
			if image.Repository == "" || image.Name() == n.Name() {
				image.Registry, image.Repository = n.Registry, n.Repository
				image.Tag, image.Digest = cmp.Or(image.Tag, n.Tag), cmp.Or(image.Digest, n.Digest)
			}
		}
		if !there && image.Repository != "" {
			p := place{file: "cluster", object: "Node/" + im.node}.optional("on a node, and in no object")
			r.s.found(p, spot{0, "status.images", image.String(), "node"}, Optional, image)
		}
	}
}
