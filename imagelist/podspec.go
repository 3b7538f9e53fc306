package imagelist

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// containerLists are the fields of a pod spec that hold containers.
var containerLists = [...]string{"initContainers", "containers", "ephemeralContainers"}

var errImageID = errors.New("the ID of an image on one machine, which no registry knows")

var injectedGap = cause{Doubtful, "injected", "filled in by the sidecar injector",
	"see that the proxy's image is inside, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// podSpec takes the images of a pod spec, and those that its containers name.
func (s *scanner) podSpec(p place, spec *yaml.Node, path string, c Confidence) {
	for _, list := range containerLists {
		for i, ct := range items(get(spec, list)) {
			s.container(p, ct, atIndex(atKey(path, list), i), c)
		}
	}
	for i, v := range items(get(spec, "volumes")) {
		if r := get(v, "image", "reference"); isScalar(r) {
			s.podImage(p, r, atIndex(atKey(path, "volumes"), i)+".image.reference", "image-volume", c)
		}
	}
}

func (s *scanner) container(p place, ct *yaml.Node, path string, c Confidence) {
	if im := get(ct, "image"); isScalar(im) {
		s.podImage(p, im, path+".image", "pod-spec", c)
	} else if es := entries(im); len(es) == 1 && (es[0].value == nil || es[0].value.Tag == "!!null") { // image: {IMAGE}, a mark that is YAML too
		s.gap(p, spot{im.Line, path + ".image", "{" + es[0].key + "}", ""}, placeholderGap, "")
	}
	s.containerSettings(p, ct, path)
}

// containerSettings looks at the environment and the arguments of a container.
func (s *scanner) containerSettings(p place, ct *yaml.Node, path string) {
	if !p.podSpecsOnly {
		s.environment(p, ct, path)
		s.arguments(p, ct, path)
	}
}

// podImage takes the image of a container. In a pod spec of a built-in kind a
// text that is no reference is a fault: the kubelet would refuse it too.
func (s *scanner) podImage(p place, n *yaml.Node, path, rule string, c Confidence) {
	written := strings.TrimSpace(n.Value)
	if written == "" {
		return
	}
	if written == "auto" {
		// Istio: the injector replaces it by the proxy's image.
		s.gap(p, spot{n.Line, path, written, ""}, injectedGap, "sidecar-injector")
		return
	}
	if filled := substitute(written, nil); filled != written && !isPlaceholder(filled) {
		written, c = filled, Medium.weaker(c)
	}
	r, err := ref.Parse(written)
	if strings.HasPrefix(written, "sha256:") {
		err = errImageID // it parses, as the repository "sha256"
	}
	switch {
	case err == nil:
		s.found(p, spot{n.Line, path, written, rule}, c, r)
	case isPlaceholder(written):
		s.gap(p, spot{n.Line, path, written, ""}, placeholderGap, "")
	case c == Certain && p.limit == "":
		f := p.finding(spot{n.Line, path, written, rule}, c)
		s.fault(fault{file: f.File, line: max(f.Line, f.Rendered), text: written, err: fmt.Errorf("%s in %s: %w", path, p.object, why(err))})
	default:
		s.reject(p, spot{n.Line, path, written, rule}, why(err).Error())
	}
}

// placeholders makes gaps of the images of pod specs that parse, but wait to be
// replaced, and were by no kustomization: app:__TAG__.
func (s *scanner) placeholders() {
	s.res.Found = slices.DeleteFunc(s.res.Found, func(f Finding) bool {
		if f.Rule != "pod-spec" || !isPlaceholder(f.Written) {
			return false
		}
		if f.Confidence != Optional {
			s.addGap(placeholderGap, Gap{Subject: f.Written, File: f.File, Line: f.Line, Object: f.Object, Field: f.Field, Text: f.Written})
		}
		return true
	})
}

// podSpecsIn looks for pod specs anywhere below n: any map with a list of
// containers.
func (s *scanner) podSpecsIn(p place, n *yaml.Node, path string) {
	if isPodSpec(n) {
		s.podSpec(p, n, path, High)
		return
	}
	for _, e := range entries(n) {
		s.podSpecsIn(p, e.value, atKey(path, e.key))
	}
	for i, it := range items(n) {
		s.podSpecsIn(p, it, atIndex(path, i))
	}
}

// isPodSpec reports whether a map is shaped like a pod spec: a list of
// containers of which one names an image.
func isPodSpec(n *yaml.Node) bool {
	for _, list := range containerLists {
		for _, ct := range items(get(n, list)) {
			if isScalar(get(ct, "image")) {
				return true
			}
		}
	}
	return false
}
