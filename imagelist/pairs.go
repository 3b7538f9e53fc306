package imagelist

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalarPairs are the keys of a map that have a scalar value.
func scalarPairs(p place, es []entry, path string, skip map[string]bool) []pair {
	var out []pair
	for _, e := range es {
		if e.value != nil && e.value.Kind == yaml.ScalarNode && !skip[e.key] {
			out = append(out, pair{e.key, p.asRead(e.value), e.value.Line, atKey(path, e.key)})
		}
	}
	return out
}

// asRead returns the text of a scalar as Kubernetes and Helm read it, which
// know YAML by way of JSON: the tag 1.10 without quotes is 1.1 to them, 0x10
// is 16. A program that reads its own file mostly takes the text as it is.
func (p place) asRead(n *yaml.Node) string {
	own := p.embedded > 0 && (p.kind == "ConfigMap" || p.kind == "Secret")
	switch {
	case n.Tag == "!!null":
		return ""
	case !own && (n.Tag == "!!int" || n.Tag == "!!float"):
		var v any
		if n.Decode(&v) == nil {
			if f, ok := v.(float64); ok {
				return strconv.FormatFloat(f, 'f', -1, 64)
			}
			return fmt.Sprint(v)
		}
	}
	return n.Value
}

// within returns the settings that the maps below inherit from this one.
func (in inherited) within(es []entry) inherited {
	for _, e := range es {
		if norm(e.key) == "global" && isMap(e.value) {
			in = in.within(entries(e.value))
			for _, from := range []string{text(e.value, "image", "registry"), text(e.value, "imageRegistry"), text(e.value, "registry")} {
				in.global = cmp.Or(in.global, from)
			}
		}
	}
	for _, e := range es {
		if where := text(e.value, "path"); norm(e.key) == "containerregistry" && hasHost(where) {
			in.prefix = where
		}
		if !isScalar(e.value) || e.value.Value == "" {
			continue
		}
		switch k := norm(e.key); k {
		case "hub", "registry", "imageregistry":
			in.registry = e.value.Value
		case "base", "imageprefix", "imagebase", "repositoryprefix", "baserepo", "baserepository":
			if hasHost(e.value.Value) {
				in.prefix = e.value.Value
			}
		case "tag", "imagetag":
			in.tag = e.value.Value
		case "version", "imageversion":
			in.version = e.value.Value
		}
	}
	return in
}

// switchedOff names the switch that turns off the part that a map describes, "" when
// there is none.
func switchedOff(es []entry) string {
	for _, e := range es {
		if !isScalar(e.value) {
			continue
		}
		switch on := strings.ToLower(e.value.Value); norm(e.key) {
		case "enabled", "enable", "install", "deploy":
			if on == "false" {
				return e.key + ": false"
			}
		case "disabled", "disable":
			if on == "true" {
				return e.key + ": true"
			}
		case "managementstate":
			if on == "removed" {
				return e.key + ": " + e.value.Value
			}
		}
	}
	return ""
}
