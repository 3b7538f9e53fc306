package imagelist

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// quietGroups are API groups whose objects speak of images that nothing
// pulls: policies, signatures, registries, rules.
var quietGroups = map[string]bool{
	"admissionregistration.k8s.io": true, "apiextensions.k8s.io": true, "apiregistration.k8s.io": true,
	"rbac.authorization.k8s.io": true, "networking.k8s.io": true, "policy": true, "autoscaling": true,
	"kyverno.io": true, "policies.kyverno.io": true, "reports.kyverno.io": true, "wgpolicyk8s.io": true, "openreports.io": true,
	"templates.gatekeeper.sh": true, "constraints.gatekeeper.sh": true, "mutations.gatekeeper.sh": true, "config.gatekeeper.sh": true,
	"policy.sigstore.dev": true, "image.toolkit.fluxcd.io": true, "imagepolicy.k8s.io": true,
	"controlplane.cluster.x-k8s.io": true, "bootstrap.cluster.x-k8s.io": true, "infrastructure.cluster.x-k8s.io": true, "cluster.x-k8s.io": true,
	"kubeadm.k8s.io": true, "aquasecurity.github.io": true, "spdx.softwarecomposition.kubescape.io": true, "cilium.io": true, "security.istio.io": true,
}

// quietKinds are kinds of other groups of which the same holds.
var quietKinds = map[string]bool{
	"PrometheusRule": true, "ServiceMonitor": true, "PodMonitor": true, "Probe": true, "AlertmanagerConfig": true, "ScrapeConfig": true,
	"GrafanaDashboard": true, "ImageContentSourcePolicy": true, "ImageContentPolicy": true, "ImageTagMirrorSet": true, "ImageDigestMirrorSet": true,
	"ConsolePlugin": true, "ConsoleLink": true, "APIService": true, "AppProject": true, "EnvoyFilter": true, "PackageManifest": true,
}

// custom looks at an object of a kind that is not built in.
func (s *scanner) custom(p place, n *yaml.Node) {
	if quietGroups[p.group] || quietKinds[p.kind] {
		s.quiet(p, n, "", p.kind)
		return
	}
	s.objectAnnotations(p, n)
	if p.group == "mirror.openshift.io" && (get(n, "mirror", "platform") != nil || get(n, "mirror", "operators") != nil) {
		s.gap(p, spot{line: n.Line}, catalogGap, p.object)
	}
	n = withDefaults(n)
	derived := s.operator(p, n)
	w := walker{s: s, p: p, derived: derived}
	for _, e := range entries(n) {
		switch e.key {
		case "apiVersion", "kind", "metadata", "status":
		default:
			w.value(e, "", inherited{}, 0)
		}
	}
}

// A walker goes through the fields of a custom resource, of a document in a
// ConfigMap, or of a chart's values.
type walker struct {
	s       *scanner
	p       place
	derived map[string]bool // names of images that the table of operators gave a tag
}

// silentKeys are fields that hold no image whatever stands in them.
var silentKeys = map[string]bool{
	"description": true, "openAPIV3Schema": true, "icon": true, "icons": true, "logo": true, "managedFields": true,
	"imagePullSecrets": true, "customresourcedefinitions": true, "matchImages": true, "imagePullPolicy": true, "pullPolicy": true,
	"storageConfig": true, // where a program writes
}

// embeddedKeys are fields of custom resources that hold a document: the values
// of a chart, an object that a workflow makes.
var embeddedKeys = map[string]bool{"values": true, "valuesContent": true, "manifest": true, "manifests": true, "resource": true}

func (w walker) value(e entry, path string, in inherited, depth int) {
	if silentKeys[e.key] || e.value == nil || isJudged(e.key) && strings.Contains(norm(e.key), "image") {
		return
	}
	path = atKey(path, e.key)
	switch e.value.Kind {
	case yaml.ScalarNode:
		switch {
		case isImageKey(e.key):
			w.candidate(e.key, e.value.Value, e.value.Line, path)
		case strings.HasPrefix(e.value.Value, "docker://"):
			w.candidate("image", e.value.Value, e.value.Line, path)
		case embeddedKeys[e.key] && strings.Contains(e.value.Value, "\n") && w.p.embedded == 0:
			w.s.embedded(w.p, e.value, path)
		case mayHoldPods(e.value.Value):
			w.s.embeddedPods(w.p, e.value, path)
		case pullsImages(e.value.Value):
			w.s.scriptText(w.p, e.value, path)
		case w.p.settings:
			w.setting(e, path)
		}
	case yaml.SequenceNode:
		w.list(e, path, in, depth)
	case yaml.MappingNode:
		w.mapping(e, path, in, depth)
	}
}

// list walks the elements of a list; the strings of a list of images are
// images.
func (w walker) list(e entry, path string, in inherited, depth int) {
	k := norm(e.key)
	images := strings.HasSuffix(k, "images") || isImageKey(e.key)
	container := strings.HasSuffix(k, "containers") || strings.HasSuffix(k, "sidecars") || strings.HasSuffix(k, "steps")
	for i, it := range items(e.value) {
		at := atIndex(path, i)
		switch {
		case it.Kind == yaml.ScalarNode && images:
			_, image, ok := strings.Cut(it.Value, "=") // Argo CD: NAME=REF, REF in the place of NAME
			if !ok {
				image = it.Value
			}
			w.candidate(e.key, image, it.Line, at)
		case container && isScalar(get(it, "image")):
			w.container(it, at, in, depth)
		case it.Kind == yaml.ScalarNode && (pullsImages(it.Value) || w.p.settings):
			w.value(entry{e.key, it, it.Line}, path+"[]", in, depth)
		case it.Kind == yaml.SequenceNode:
			w.list(entry{e.key, it, it.Line}, at, in, depth+1)
		case it.Kind == yaml.MappingNode:
			w.listed(e.key, it, at)
			w.fields(it, at, e.key, in, depth+1)
		}
	}
}

// listed takes the name of an element of a list of images, where it is all of a
// reference: {name: quay.io/x/a:v1, platform: linux/amd64}.
func (w walker) listed(key string, n *yaml.Node, path string) {
	if to := get(n, "newName"); isScalar(to) && w.p.foreign && get(n, "newTag") != nil { // kustomize's, in another language
		if tag := text(n, "newTag"); tag != "" && !isPlaceholder(tag) {
			w.candidate("image", to.Value+":"+tag, to.Line, atKey(path, "newName"))
		} else {
			w.s.gap(w.p, spot{to.Line, atKey(path, "newName"), to.Value, ""}, programTagGap, "")
		}
		return
	}
	v := get(n, "name")
	if strings.HasSuffix(norm(key), "images") && w.copied(n, path) {
		return
	}
	if !strings.HasSuffix(norm(key), "images") || !isScalar(v) || get(n, "image") != nil || !strings.Contains(v.Value, "/") {
		return
	}
	if judge("image", v.Value).confidence.Mirrored() {
		w.candidate("image", v.Value, v.Line, atKey(path, "name"))
	}
}

// mapping walks a map; the strings of a map of images are images.
func (w walker) mapping(e entry, path string, in inherited, depth int) {
	if !strings.HasSuffix(norm(e.key), "images") {
		w.fields(e.value, path, e.key, in, depth+1)
		return
	}
	for _, f := range entries(e.value) {
		if isScalar(f.value) {
			w.candidate(e.key, f.value.Value, f.value.Line, atKey(path, f.key))
			continue
		}
		// Under "images" every key is the name of an image.
		if isMap(f.value) {
			w.fields(f.value, atKey(path, f.key), "image", in, depth+1)
			continue
		}
		w.value(f, path, in, depth+1)
	}
}

// containerLike are lists that only a container has beside its image.
var containerLike = map[string]bool{
	"command": true, "args": true, "env": true, "envFrom": true, "volumeMounts": true, "ports": true,
}

// fields walks the keys of a map. key is the key that the map stands under.
func (w walker) fields(n *yaml.Node, path, key string, in inherited, depth int) {
	es := entries(n)
	if (depth > 0 || w.p.foreign) && isObject(n) {
		w.object(n, path)
		return
	}
	w.s.chartReference(w.p, n)
	if off := switchedOff(es); off != "" {
		w.p = w.p.optional(off + " at " + w.p.prefix + path)
	}
	if norm(key) == "options" || norm(key) == "examples" || norm(key) == "catalog" {
		w.p = w.p.optional("one of the choices at " + w.p.prefix + path)
	}
	if isPushed(key) {
		w.p = w.p.optional("the image is made at " + w.p.prefix + path + ", not pulled")
	}
	podSpec := isPodSpec(n)
	if podSpec {
		w.s.podSpec(w.p, n, path, High)
	}
	imageKey := isImageKey(key)
	in = in.within(es)
	skip := map[string]bool{}
	w.named(n, path)
	w.tagLists(n, path)
	w.imported(n)
	if !imageKey && (looksLikeContainer(es) || isContainerBlock(key, n)) {
		w.runs(n, path)
		skip["image"], skip["env"], skip["args"], skip["command"] = true, true, true, true
	}
	pairs := scalarPairs(w.p, es, path, skip)
	for _, c := range compose(pairs, imageKey, in) {
		if forNodes(w.p, path, c) {
			w.s.gap(w.p, spot{c.at.line, c.at.field, c.written, ""}, nodeTagGap, "")
		} else {
			w.found(spot{c.at.line, c.at.field, c.written, "split-fields"}, c.confidence)
		}
		for _, u := range c.used {
			skip[u.key] = true
		}
	}
	for _, r := range untagged(pairs, imageKey) {
		if !skip[r.key] {
			w.s.gap(w.p, spot{r.line, r.field, r.value, ""}, programTagGap, "")
			skip[r.key] = true
		}
	}
	for _, e := range es {
		switch {
		case skip[e.key]:
		case podSpec && (e.key == "containers" || e.key == "initContainers" || e.key == "ephemeralContainers" || e.key == "volumes"):
		case imageKey && isScalar(e.value):
			w.insideImage(e, path)
		case imageKey && isSeq(e.value):
			w.choices(e, path)
		default:
			w.value(e, path, in, depth)
		}
	}
}

// named looks at a parameter: a name that speaks of an image, and a value; and
// at OpenShift's {kind: DockerImage, name: REF}.
func (w walker) named(n *yaml.Node, path string) {
	name := text(n, "name")
	if v := get(n, "name"); isScalar(v) && text(n, "kind") == "DockerImage" {
		w.candidate("image", v.Value, v.Line, atKey(path, "name"))
		return
	}
	if !speaksOfImage(name) {
		return
	}
	for _, key := range []string{"value", "default"} {
		if v := get(n, key); isScalar(v) {
			if judge(name, v.Value).confidence.Mirrored() {
				w.candidate(name, v.Value, v.Line, atKey(path, key))
			}
		}
	}
}

// choices are a list of images of which a user of the program picks one.
func (w walker) choices(e entry, path string) {
	w.p = w.p.optional("one of the choices at " + w.p.prefix + atKey(path, e.key))
	for i, it := range items(e.value) {
		if isScalar(it) {
			w.candidate("image", it.Value, it.Line, atIndex(atKey(path, e.key), i))
		}
	}
}

func (w walker) container(n *yaml.Node, path string, in inherited, depth int) {
	w.runs(n, path)
	for _, e := range entries(n) {
		switch e.key {
		case "image", "env", "args", "command", "name":
		default:
			w.value(e, path, in, depth+1)
		}
	}
}

// runs takes a container that a custom resource describes, whose image may be
// one that the table of operators gave a tag.
func (w walker) runs(n *yaml.Node, path string) {
	if w.isDerived(text(n, "image")) {
		w.s.containerSettings(w.p, n, path)
		return
	}
	w.s.container(w.p, n, path, High)
}

// isDerived reports whether an image without a tag is one that the table of
// operators gave a tag.
func (w walker) isDerived(image string) bool {
	if len(w.derived) == 0 || strings.Contains(image, "@") {
		return false
	}
	_, tag := splitTag(image)
	r, err := ref.Parse(image)
	return err == nil && tag == "" && w.derived[r.Name()]
}

// isContainerBlock reports whether a map with a name and an image stands under a key
// that names its kind: container { name = …, image = … }.
func isContainerBlock(key string, n *yaml.Node) bool {
	k := norm(key)
	return (k == "container" || k == "initcontainer" || k == "sidecarcontainer") && isScalar(get(n, "image")) && isScalar(get(n, "name"))
}

// looksLikeContainer reports whether a map is a container, alone: the
// template of a workflow, a step of a task.
func looksLikeContainer(es []entry) bool {
	image, more := false, false
	for _, e := range es {
		image = image || e.key == "image" && isScalar(e.value)
		more = more || containerLike[e.key] && len(items(e.value)) > 0 || e.key == "script" && isScalar(e.value)
	}
	return image && more
}

// releaseTag is an official image of Docker Hub with the number of a release.
var releaseTag = regexp.MustCompile(`^[a-z][a-z0-9-]{2,}:v?[0-9]+\.[0-9]`)

// insideImage looks at a string in the map of an image key: all of the
// reference, or one of several images.
func (w walker) insideImage(e entry, path string) {
	switch norm(e.key) {
	case "value", "ref", "reference", "url", "uri", "fullname", "image", "full", "path":
		w.candidate("image", e.value.Value, e.value.Line, atKey(path, e.key))
	default:
		if v := judge("image", e.value.Value); v.confidence == High && (strings.Contains(e.value.Value, "/") || releaseTag.MatchString(e.value.Value)) {
			w.candidate("image", e.value.Value, e.value.Line, atKey(path, e.key))
		}
	}
}

// candidate decides on a string that stands where an image would.
func (w walker) candidate(key, value string, line int, path string) {
	if filled := substitute(value, nil); filled != value && !isPlaceholder(filled) {
		value, w.p.limit = filled, Medium.weaker(w.p.limit)
	}
	v := judge(key, value)
	if v.confidence == Low && key == "image" && w.p.embedded == 0 && strings.Count(value, "/") == 1 && !strings.ContainsAny(value, ":@") {
		v.confidence = Medium // an object's "image: org/name": the newest
	}
	if w.isDerived(value) {
		return
	}
	switch {
	case v.confidence == "" && v.reason == "":
		if key == "image" && w.p.embedded == 0 && hasLetter(value) {
			w.s.gap(w.p, spot{line, path, value, ""}, wordGap, "")
		}
		w.s.rejectWord(w.p, spot{line, path, value, "image-field"})
	case v.confidence == "":
		if v.reason == "a placeholder" && w.p.embedded == 0 {
			w.s.gap(w.p, spot{line, path, value, ""}, placeholderGap, "")
			return
		}
		w.s.reject(w.p, spot{line, path, value, "image-field"}, v.reason)
	default:
		w.found(spot{line, path, plain(value), "image-field"}, v.confidence)
	}
}

// rejectWord records a plain word in a place for an image.
func (s *scanner) rejectWord(p place, at spot) {
	if at.written = strings.TrimSpace(at.written); hasLetter(at.written) {
		s.reject(p, at, "a plain word: neither registry, tag nor digest")
	}
}

func (w walker) found(at spot, c Confidence) {
	w.s.add(w.p, at, c)
}

// add adds a finding whose reference is known to parse.
func (s *scanner) add(p place, at spot, c Confidence) {
	v := judge("image", at.written)
	if isNamespace(v.ref) {
		c := namespaceGap
		c.reason = v.reason
		s.gap(p, at, c, "")
		return
	}
	if v.ref.Repository == "" {
		s.reject(p, at, v.reason)
		return
	}
	s.found(p, at, c, v.ref)
}
