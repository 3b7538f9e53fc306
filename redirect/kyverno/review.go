package kyverno

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Warning reports a place in a file that will not work in a cluster.
type Warning struct {
	File string
	Line int    // from 1
	Msg  string // the effect, and the versions of Kyverno that have it
	Fix  string // the command that writes a working file
}

// String returns "file:line: msg; fix".
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d: %s; %s", w.File, w.Line, w.Msg, w.Fix)
}

const fix = "a working one is written by: sealer init kyverno DIR"

// The defects of the redirect policy that circulates for sealer, as measured on
// Kyverno 1.7.1, 1.8.0, 1.9.2, 1.13.6 and 1.19.1.
const (
	msgUnquoted = "container names with \"-\" or a leading digit break this policy: Kyverno up to 1.8.1 leaves such pods unchanged, later versions deny them"
	msgAbsent   = "Kyverno 1.8.2 and later deny every pod, Deployment and Job that has no initContainers, since this list has no default; up to 1.8.1 the rule is skipped"
	msgDigest   = "the digest of an image is lost here, and an image with a digest but no tag breaks the rule: Kyverno up to 1.8.1 leaves such pods unchanged, later versions deny them"
	msgWait     = "this loop never ends on Kyverno 1.13 and later, which never set .status.ready, nor on any version when there is no policy or more than one"
)

var (
	unquotedElement = regexp.MustCompile(`images\.(containers|initContainers|ephemeralContainers)\.\{\{\s*element\.name\s*\}\}`)
	endsInTag       = regexp.MustCompile(`\.tag\s*\}\}\s*$`)
	loop            = regexp.MustCompile(`(?m)^\s*(while|until|for)\b`)
	policyStatus    = regexp.MustCompile(`\.status\.ready\b`)
	listsPolicies   = regexp.MustCompile(`\b(cpol|clusterpolic(y|ies))\b`)
)

// Review returns a Warning for each known defect in content: of a ClusterPolicy
// that redirects images, or of a shell script that waits for such a policy and
// never ends. name is for the warnings, and its suffix .sh marks a script. Other
// content, also bytes that are no YAML, gives none.
func Review(name string, content []byte) []Warning {
	if bytes.HasPrefix(content, []byte("#!")) || strings.HasSuffix(name, ".sh") {
		return reviewScript(name, content)
	}
	var warnings []Warning
	for line, doc := range documents(string(content)) {
		// Kyverno's own definitions are megabytes that mention every field.
		if strings.Contains(doc, "foreach") && strings.Contains(doc, "kyverno.io/") && !strings.Contains(doc, "CustomResourceDefinition") {
			var n yaml.Node
			if yaml.Unmarshal([]byte(doc), &n) == nil && len(n.Content) == 1 {
				for _, w := range reviewPolicy(n.Content[0]) {
					w.File, w.Line = name, w.Line+line-1
					warnings = append(warnings, w)
				}
			}
		}
	}
	return warnings
}

// reviewPolicy reports each kind of defect once, at its first place.
func reviewPolicy(doc *yaml.Node) []Warning {
	if kind := child(doc, "kind"); kind == nil || (kind.Value != "ClusterPolicy" && kind.Value != "Policy") {
		return nil
	}
	var warnings []Warning
	warned := map[string]bool{}
	warn := func(n *yaml.Node, msg string) {
		if !warned[msg] {
			warned[msg] = true
			warnings = append(warnings, Warning{Line: n.Line, Msg: msg, Fix: fix})
		}
	}
	rules := child(child(doc, "spec"), "rules")
	for _, rule := range items(rules) {
		for _, each := range items(child(child(rule, "mutate"), "foreach")) {
			if list := child(each, "list"); list != nil && optional(list.Value) && !strings.Contains(list.Value, "||") {
				warn(list, msgAbsent)
			}
			scalars(each, func(n *yaml.Node) {
				if unquotedElement.MatchString(n.Value) {
					warn(n, msgUnquoted)
				}
				if endsInTag.MatchString(n.Value) && !strings.Contains(n.Value, "digest") {
					warn(n, msgDigest)
				}
			})
		}
	}
	return warnings
}

// optional reports whether a foreach runs over a list that most pods lack.
func optional(list string) bool {
	return strings.Contains(list, "spec.initContainers") || strings.Contains(list, "spec.ephemeralContainers")
}

func reviewScript(name string, content []byte) []Warning {
	text := string(content)
	at := policyStatus.FindStringIndex(text)
	if at == nil || !listsPolicies.MatchString(text) || !loop.MatchString(text) || strings.Contains(text, "conditions") {
		return nil
	}
	return []Warning{{File: name, Line: 1 + strings.Count(text[:at[0]], "\n"), Msg: msgWait, Fix: fix}}
}

// child returns the value under key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// items returns the elements of a sequence; of anything else none.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// scalars calls f for each scalar below n, in order.
func scalars(n *yaml.Node, f func(*yaml.Node)) {
	if n.Kind == yaml.ScalarNode {
		f(n)
	}
	for _, c := range n.Content {
		scalars(c, f)
	}
}
