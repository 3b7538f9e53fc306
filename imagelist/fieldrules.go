package imagelist

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// knownFields are fields of custom resources that hold an image under a name
// that does not say so.
var knownFields = []fieldRule{
	{"Provider", "pkg.crossplane.io", []string{"spec", "package"}, High},
	{"Configuration", "pkg.crossplane.io", []string{"spec", "package"}, High},
	{"Function", "pkg.crossplane.io", []string{"spec", "package"}, High},
	{"ImageSetConfiguration", "mirror.openshift.io", []string{"mirror", "operators", "[]", "catalog"}, High},
	{"WasmPlugin", "extensions.istio.io", []string{"spec", "url"}, High},
	{"EnvoyExtensionPolicy", "gateway.envoyproxy.io", []string{"spec", "wasm", "[]", "code", "image", "url"}, High},
	{"ClusterCatalog", "olm.operatorframework.io", []string{"spec", "source", "image", "ref"}, High},
}

// A nodeImage is a map of a custom resource with the parts of an image whose
// tag the operator completes by facts of each node.
type nodeImage struct {
	kind, group string
	path        string
}

var nodeImages = []nodeImage{
	{"ClusterPolicy", "nvidia.com", "spec.driver"},
	{"ClusterPolicy", "nvidia.com", "spec.vgpuManager"},
	{"NVIDIADriver", "nvidia.com", "spec"},
	{"NicClusterPolicy", "mellanox.com", "spec.ofedDriver"},
}

var nodeTagGap = cause{Open, "node-tag", "the operator adds the operating system of each node to the tag",
	"add the image for your nodes to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// forNodes reports whether the image composed at a path is completed on each
// node; one with a digest is not.
func forNodes(p place, path string, c composition) bool {
	return !strings.Contains(c.written, "@") && slices.ContainsFunc(nodeImages, func(n nodeImage) bool {
		return n.kind == p.kind && n.group == p.group && n.path == path
	})
}

var catalogGap = cause{Open, "elsewhere", "takes the images of a release, or of operators in a catalog, which are named there",
	"add its images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// fieldRules takes the images at the paths that the user, or the table, names
// for objects of this kind.
func (s *scanner) fieldRules(p place, n *yaml.Node) {
	if p.podSpecsOnly {
		return
	}
	for _, rules := range [][]fieldRule{s.rules.fields, knownFields} {
		for _, r := range rules {
			if r.kind == p.kind && (r.group == "" || r.group == p.group) {
				s.fieldRule(p, n, "", r.path, r.confidence)
			}
		}
	}
}

// fieldRule follows a path: keys, [] for every element of a list, * for every
// key of a map.
func (s *scanner) fieldRule(p place, n *yaml.Node, field string, path []string, c Confidence) {
	n = follow(n)
	if n == nil {
		return
	}
	if len(path) == 0 {
		s.imageAt(p, n, field, c)
		return
	}
	switch path[0] {
	case "[]":
		for i, it := range items(n) {
			s.fieldRule(p, it, atIndex(field, i), path[1:], c)
		}
	default:
		for _, e := range entries(n) {
			if path[0] == "*" || path[0] == e.key {
				s.fieldRule(p, e.value, atKey(field, e.key), path[1:], c)
			}
		}
	}
}

// imageAt takes the value at the end of a rule's path: a reference, a list of
// them, or a map with its parts.
func (s *scanner) imageAt(p place, n *yaml.Node, field string, c Confidence) {
	switch n.Kind {
	case yaml.ScalarNode:
		if rest, ok := strings.CutPrefix(n.Value, "oci://"); ok {
			plain := *n
			plain.Value = rest
			n = &plain
		}
		if isScalar(n) && n.Value != "" && !strings.Contains(n.Value, "://") {
			s.podImage(p, n, field, "field-rule", c)
		}
	case yaml.SequenceNode:
		for i, it := range items(n) {
			s.imageAt(p, it, atIndex(field, i), c)
		}
	case yaml.MappingNode:
		for _, got := range compose(scalarPairs(p, entries(n), field, nil), true, inherited{}) {
			s.add(p, spot{got.at.line, got.at.field, got.written, "field-rule"}, c)
		}
	}
}
