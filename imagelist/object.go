package imagelist

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// A place is where the document stands that the rules look at.
type place struct {
	file   string
	base   int    // added to a node's line
	prefix string // before every field: the field of a document inside a string
	object string // Kind/name
	kind   string
	group  string // of the apiVersion, "" for the core group

	limit        Confidence // no finding here is surer
	reason       string     // why, for limit Optional
	podSpecsOnly bool       // a file outside the directories made for objects
	rendered     bool       // lines are those of a chart's rendering
	embedded     int        // how many strings the document is inside of
	images       bool       // a string of images: each value in it is one
	settings     bool       // a string of a program's settings: a hosted reference in it is one
	foreign      bool       // a file of another program, no object
	nested       bool       // an object inside an object
	fixed        int        // the line of a string whose inner lines are not the file's, 0 otherwise
}

// optional returns p for something that is not pulled without a further
// switch.
func (p place) optional(reason string) place {
	if p.limit != Optional {
		p.limit, p.reason = Optional, reason
	}
	return p
}

// finding fills in the place of a finding.
func (p place) finding(at spot, c Confidence) Finding {
	f := Finding{File: p.file, Object: p.object, Field: p.prefix + at.field, Written: at.written,
		Rule: at.rule, Confidence: c.weaker(p.limit)}
	if f.Confidence == Optional {
		f.Reason = p.reason
	}
	if f.Line = at.line; p.fixed > 0 {
		f.Line = p.fixed
	}
	if f.Line > 0 {
		f.Line += p.base
	}
	if p.rendered {
		f.Line, f.Rendered = 0, f.Line
	}
	f.Written, f.Object = unmark(f.Written), unmark(f.Object)
	return f
}

// A spot is a text inside a document that a rule looks at.
type spot struct {
	line    int    // in the document
	field   string // path of the field
	written string // the text itself, or the reference composed of several
	rule    string
}

// found adds r, which the text at a spot names.
func (s *scanner) found(p place, at spot, c Confidence, r ref.Reference) {
	f := p.finding(at, c)
	f.Reference, f.Source = r, r
	s.res.Found = append(s.res.Found, f)
}

// reject keeps a text that only looked like an image, with the reason.
func (s *scanner) reject(p place, at spot, reason string) {
	f := p.finding(at, Low)
	f.Reason, f.Written = reason, shorten(f.Written)
	if r, err := ref.Parse(at.written); err == nil {
		f.Reference, f.Source = r, r
	}
	s.res.Rejected = append(s.res.Rejected, f)
}

// document looks at one document of a file.
func (s *scanner) document(p place, d document) {
	s.res.Documents++
	if err := check(d.node); err != nil {
		s.fault(fault{file: p.file, line: d.line + d.node.Line, err: err})
		return
	}
	p.base = d.line
	if isSeq(d.node) {
		if isJSONPatch(d.node) {
			return // a kustomization may name it
		}
		if s.isForeign(p, first(items(d.node))) {
			s.foreignDocument(p, d.node)
			return
		}
		for _, it := range items(d.node) {
			s.object(p, it, "")
		}
		return
	}
	s.object(p, d.node, "")
}

// isForeign reports whether a document of a file among manifests is no object,
// but the settings of a program.
func (s *scanner) isForeign(p place, n *yaml.Node) bool {
	if n == nil || p.podSpecsOnly || p.rendered || p.embedded > 0 || p.nested || s.areaOf(p.file) != manifests || text(n, "apiVersion") != "" && text(n, "kind") != "" {
		return false
	}
	return isMap(n) && (text(n, "kind") == "" || text(n, "kind") == "pipeline") || isSeq(n) || isScalar(n)
}

// object looks at one Kubernetes object. kind is that of the items of the list
// around it, for objects that name none themselves.
func (s *scanner) object(p place, n *yaml.Node, kind string) {
	if k := text(n, "kind"); k != "" {
		kind = k
	}
	if kind == "" && kustomizationFile(p.file) {
		s.kustomization(p, n)
		return
	}
	if s.isForeign(p, n) && (kind == "" || text(n, "kind") == "pipeline") {
		s.foreignDocument(p, n)
		return
	}
	if !isMap(n) || kind == "" {
		return
	}
	p.kind, p.group = kind, apiGroup(text(n, "apiVersion"))
	if list := get(n, "items"); strings.HasSuffix(kind, "List") && isSeq(list) {
		for _, it := range items(list) {
			s.object(p, it, strings.TrimSuffix(kind, "List"))
		}
		return
	}
	p = s.noteObject(p, n)
	s.noteSource(p, n)
	s.fieldRules(p, n)
	s.ofKind(p, n)
}

// noteObject counts an object, and returns its place with its name, and with
// the limit of one that an install leaves out.
func (s *scanner) noteObject(p place, n *yaml.Node) place {
	if p.embedded == 0 && !p.nested {
		p.object = objectName(p.kind, get(n, "metadata"))
	}
	if p.rendered {
		if hook := text(n, "metadata", "annotations", "helm.sh/hook"); hook != "" && !installHook(hook) {
			p = p.optional("hook " + hook + " is not run by an install")
		}
	}
	s.kinds[p.group+"/"+p.kind] = true
	if p.rendered && p.embedded == 0 {
		s.objects++
		if !strings.Contains(p.group, ".") || strings.HasSuffix(p.group, ".k8s.io") && p.kind != "CustomResourceDefinition" {
			s.builtin++
		}
	}
	return p
}

// ofKind looks at an object with the rules of its kind.
func (s *scanner) ofKind(p place, n *yaml.Node) {
	switch {
	case p.kind == "CustomResourceDefinition":
		s.definition(n)
	case p.kind == "Template" && (p.group == "" || p.group == "template.openshift.io") && isSeq(get(n, "objects")):
		s.openShiftTemplate(p, n)
	case podSpecPath(p) != nil:
		s.workload(p, n)
	case (p.kind == "Kustomization" || p.kind == "Component") && (p.group == "" || p.group == "kustomize.config.k8s.io"):
		s.kustomization(p, n)
	case p.kind == "ClusterConfiguration" && p.group == "kubeadm.k8s.io":
		// Among manifests it is an object that nothing of Kubernetes takes.
		if p.embedded == 0 && (s.areaOf(p.file) == other || strings.Contains(path.Base(p.file), "kubeadm")) {
			s.kubeadmConfigs = append(s.kubeadmConfigs, kubeadmConfig{place: p, node: n})
			s.kubeletArgs(p, n)
		}
	case s.isKubeadmPart(p):
		s.kubeadmParts = append(s.kubeadmParts, kubeadmConfig{place: p, node: n})
		s.kubeletArgs(p, n)
	case p.podSpecsOnly:
		s.podSpecsIn(p, n, "")
	case p.kind == "ConfigMap" && p.group == "":
		s.configMap(p, n)
	case p.kind == "Secret" && p.group == "":
		s.secret(p, n)
	case p.kind == "List":
	default:
		s.custom(p, n)
	}
}

func apiGroup(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func objectName(kind string, meta *yaml.Node) string {
	name := text(meta, "name")
	if name == "" {
		name = text(meta, "generateName")
	}
	if ns := text(meta, "namespace"); ns != "" {
		name = ns + "/" + name
	}
	if name == "" {
		return kind
	}
	return kind + "/" + name
}

// installHook reports whether one of a hook's events happens at helm install.
func installHook(events string) bool {
	for e := range strings.SplitSeq(events, ",") {
		switch strings.TrimSpace(e) {
		case "pre-install", "post-install", "crd-install":
			return true
		}
	}
	return false
}

// definition notes the API versions that a CRD brings. Its schema holds
// descriptions and examples, no images.
func (s *scanner) definition(n *yaml.Node) {
	group, kind := text(n, "spec", "group"), text(n, "spec", "names", "kind")
	add := func(version string) {
		if group != "" && version != "" {
			s.apis[group+"/"+version] = true
			s.apis[group+"/"+version+"/"+kind] = true
		}
	}
	add(text(n, "spec", "version"))
	for _, v := range items(get(n, "spec", "versions")) {
		if text(v, "served") != "false" {
			add(text(v, "name"))
		}
	}
}

// podSpecPath returns where an object of a built-in kind has its pod spec, nil
// for every other kind.
func podSpecPath(p place) []string {
	switch p.group {
	case "", "apps", "batch", "extensions":
	default:
		return nil
	}
	switch p.kind {
	case "Pod":
		return []string{"spec"}
	case "PodTemplate":
		return []string{"template", "spec"}
	case "ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job":
		return []string{"spec", "template", "spec"}
	case "CronJob", "ScheduledJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	}
	return nil
}

func (s *scanner) workload(p place, n *yaml.Node) {
	at := podSpecPath(p)
	if spec := get(n, at...); spec != nil {
		s.podSpec(p, spec, strings.Join(at, "."), Certain)
	}
	template := at[:len(at)-1]
	s.podAnnotations(p, get(get(n, template...), "metadata", "annotations"), strings.Join(template, "."))
}
