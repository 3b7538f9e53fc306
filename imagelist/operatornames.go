package imagelist

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A namingOperator is an operator whose own manifest names, in its environment, the
// images that its objects are run with. Where only the objects are here, their
// images are not known.
type namingOperator struct {
	group      string
	kinds      []string
	repository string // the end of the operator's own
}

var namingOperators = []namingOperator{
	{"kafka.strimzi.io", []string{"Kafka", "KafkaConnect", "KafkaMirrorMaker", "KafkaMirrorMaker2", "KafkaBridge"}, "strimzi/operator"},
	{"acid.zalan.do", []string{"postgresql"}, "postgres-operator"},
	{"k8s.keycloak.org", []string{"Keycloak"}, "keycloak-operator"},
	{"loki.grafana.com", []string{"LokiStack"}, "loki-operator"},
	{"tempo.grafana.com", []string{"TempoStack", "TempoMonolithic"}, "tempo-operator"},
	{"kubevirt.io", []string{"KubeVirt"}, "virt-operator"},
	{"cdi.kubevirt.io", []string{"CDI"}, "cdi-operator"},
	{"metallb.io", []string{"MetalLB"}, "metallb-operator"},
}

// An awaited object is one whose operator names its images.
type awaited struct {
	p    place
	line int
	by   namingOperator
}

// await notes an object whose operator names its images, unless it names its own.
func (s *scanner) await(p place, n *yaml.Node) {
	if text(n, "spec", "image") != "" {
		return
	}
	for _, op := range namingOperators {
		if op.group == p.group && slices.Contains(op.kinds, p.kind) {
			s.awaiting = append(s.awaiting, awaited{p, n.Line, op})
		}
	}
}

var awaitedGap = cause{Doubtful, "operator", "its images are named by its operator, which is not in these files",
	"add the operator's images to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

// tellAwaited makes a gap of each kind of object whose operator was not found.
func (s *scanner) tellAwaited() {
	for _, a := range s.awaiting {
		found := slices.ContainsFunc(s.res.Found, func(f Finding) bool {
			return strings.HasSuffix("/"+f.Reference.Repository, "/"+a.by.repository)
		})
		if !found {
			s.gap(a.p, spot{line: a.line}, awaitedGap, strings.TrimSuffix(a.p.kind+"."+a.p.group, "."))
		}
	}
}
