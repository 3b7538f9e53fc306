package kyverno

import (
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/redirect"
	"github.com/clusterimage/sealer/registry/ref"
)

// MaxManifest is the largest install manifest, in bytes, that is accepted;
// Kyverno 1.19's has 6 MB.
const MaxManifest = 32 << 20

// A Found is an image that an install manifest names.
type Found struct {
	Reference ref.Reference
	Written   string // as it stands in the manifest
	Line      int    // from 1; for an image inside a longer value, the line where the value begins
}

// A Finder finds the images of a manifest. Callers pass package imagelist's
// discovery, which this package does not import.
type Finder func(manifest []byte) ([]Found, error)

// install is an install manifest that pulls from the private registry.
type install struct {
	Manifest []byte          // byte-equal to the original but for the images
	Images   []ref.Reference // the originals, sorted
}

// rewrite sends the images of the install manifest to the private registry:
// Kyverno cannot redirect its own pods.
func (c Context) rewrite() (*install, error) {
	name := c.ManifestName
	if len(c.Manifest) > MaxManifest {
		return nil, fmt.Errorf("install manifest %s: %d bytes, more than the %d of any Kyverno", name, len(c.Manifest), MaxManifest)
	}
	resources, err := checkObjects(c.Manifest)
	if err != nil {
		return nil, fmt.Errorf("install manifest %s: %w", name, err)
	}
	if err := checkEngine(c.Redirect.Engine, resources); err != nil {
		return nil, fmt.Errorf("install manifest %s: %w", name, err)
	}
	found, err := c.Find(c.Manifest)
	if err != nil {
		return nil, fmt.Errorf("install manifest %s: %w", name, err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("install manifest %s: it names no image", name)
	}
	isKyverno := func(f Found) bool { return path.Base(f.Reference.Repository) == "kyverno" }
	if !slices.ContainsFunc(found, isKyverno) {
		return nil, fmt.Errorf("install manifest %s: it does not install Kyverno: its first image is %s", name, found[0].Reference)
	}
	return c.replace(found)
}

// replace writes each found image's new name over the old one.
func (c Context) replace(found []Found) (*install, error) {
	d, name := c.Redirect, c.ManifestName
	var errs []error
	var edits []edit
	out := &install{}
	starts := lineStarts(c.Manifest)
	for _, f := range found {
		original, err := c.original(f.Reference)
		if err != nil {
			errs = append(errs, fmt.Errorf("install manifest %s:%d: %w", name, f.Line, err))
			continue
		}
		if !slices.Contains(out.Images, original) {
			out.Images = append(out.Images, original)
		}
		if f.Reference.Registry == d.PrivateRegistry {
			continue
		}
		at, ok := locate(c.Manifest, starts, f, edits)
		if !ok {
			errs = append(errs, fmt.Errorf("install manifest %s:%d: %q is not written there in one piece; write it out", name, f.Line, f.Written))
			continue
		}
		edits = append(edits, edit{at, len(f.Written), d.Rename(original).String()})
	}
	slices.SortFunc(out.Images, func(a, b ref.Reference) int { return strings.Compare(a.String(), b.String()) })
	images := make([]redirect.Image, len(out.Images))
	for i, r := range out.Images {
		images[i].Reference = r
	}
	d.Images = images
	if err := errors.Join(append(errs, d.CheckCollisions())...); err != nil {
		return nil, err
	}
	out.Manifest = apply(c.Manifest, edits)
	return out, nil
}

// original returns the public reference of an image of the manifest.
func (c Context) original(r ref.Reference) (ref.Reference, error) {
	d := c.Redirect
	if r.Registry == d.PrivateRegistry {
		for _, k := range c.Known {
			if d.Rename(k) == r {
				return k, nil
			}
		}
		return r, fmt.Errorf("%s is in the private registry already, and imageList has no image for it: start from the original manifest", r)
	}
	if _, ok := d.PathOf(r.Registry); len(d.Prefixes) > 0 && !ok {
		return r, fmt.Errorf("%s: %s has no prefix, the other registries have", r, r.Registry)
	}
	if c.Version != "" && r.Digest == "" && r.Tag == ref.DefaultTag && strings.HasPrefix(r.Repository, "kyverno/") {
		r.Tag = c.Version
	}
	return r, nil
}

// checkEngine reports an engine that the Kyverno of the manifest lacks. A
// manifest without any definitions is accepted: they are installed apart.
func checkEngine(engine redirect.Engine, resources map[string][]string) error {
	name, other := "clusterpolicies.kyverno.io", redirect.MutatingPolicy
	if engine == redirect.MutatingPolicy {
		name, other = "mutatingpolicies.policies.kyverno.io", redirect.ClusterPolicy
	}
	if len(resources) == 0 || slices.Contains(resources[name], "v1") {
		return nil
	}
	return fmt.Errorf("the Kyverno that it installs has no %s of version v1: use another version, or --engine %s", name, other)
}

// checkObjects accepts a YAML stream of Kubernetes objects, and returns the
// served versions of the resources that it defines.
func checkObjects(manifest []byte) (map[string][]string, error) {
	objects := 0
	resources := map[string][]string{}
	for line, doc := range documents(string(manifest)) {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
		}
		var n yaml.Node
		if err := yaml.Unmarshal([]byte(doc), &n); err != nil {
			return nil, fmt.Errorf("the document at line %d is not YAML: %w", line, err)
		}
		if n.Kind != 0 {
			if err := n.Decode(&object); err != nil || object.APIVersion == "" || object.Kind == "" {
				return nil, fmt.Errorf("the document at line %d is no Kubernetes object", line)
			}
			objects++
		}
		if object.Kind == "CustomResourceDefinition" {
			name, versions := defined(n.Content[0])
			resources[name] = versions
		}
	}
	if objects == 0 {
		return nil, errors.New("it is empty")
	}
	return resources, nil
}

// documents yields the first line, from 1, and the text of each document of a
// YAML stream.
func documents(stream string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for line, more := 1, true; more; {
			var doc string
			doc, stream, more = cutDocument(stream)
			if !yield(line, doc) {
				return
			}
			line += strings.Count(doc, "\n") + 1 // and the separator
		}
	}
}

// cutDocument cuts a YAML stream around its first separator: a line that starts
// with three hyphens.
func cutDocument(stream string) (doc, rest string, found bool) {
	at := 0
	if !strings.HasPrefix(stream, "---") {
		at = strings.Index(stream, "\n---") + 1
		if at == 0 {
			return stream, "", false
		}
	}
	end := strings.IndexByte(stream[at:], '\n')
	if end < 0 {
		return stream, "", false
	}
	return stream[:at], stream[at+end+1:], true
}

// defined returns the name of a CustomResourceDefinition, and the versions that
// it serves.
func defined(definition *yaml.Node) (name string, versions []string) {
	if n := child(child(definition, "metadata"), "name"); n != nil {
		name = n.Value
	}
	for _, v := range items(child(child(definition, "spec"), "versions")) {
		version, served := child(v, "name"), child(v, "served")
		if version != nil && served != nil && served.Value == "true" {
			versions = append(versions, version.Value)
		}
	}
	return name, versions
}

// An edit replaces size bytes at a position.
type edit struct {
	at, size int
	text     string
}

func apply(b []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return a.at - b.at })
	var out []byte
	end := 0
	for _, e := range edits {
		out = append(out, b[end:e.at]...)
		out = append(out, e.text...)
		end = e.at + e.size
	}
	return append(out, b[end:]...)
}

// lineStarts returns the position of each line's first byte.
func lineStarts(b []byte) []int {
	starts := []int{0}
	for i, c := range b {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// locate returns the position of f.Written in b: the first one at or after f's
// line, in the same document, that is no part of a longer reference and in none
// of taken.
func locate(b []byte, starts []int, f Found, taken []edit) (int, bool) {
	if f.Line < 1 || f.Line > len(starts) || f.Written == "" {
		return 0, false
	}
	from := starts[f.Line-1]
	text, _, _ := cutDocument(string(b[from:]))
	for i := 0; ; {
		next := strings.Index(text[i:], f.Written)
		if next < 0 {
			return 0, false
		}
		i += next
		at, end := from+i, i+len(f.Written)
		alone := (i == 0 || !partOfReference(text[i-1])) && (end == len(text) || !partOfReference(text[end]))
		if alone && !slices.ContainsFunc(taken, func(e edit) bool { return e.at == at }) {
			return at, true
		}
		i = end
	}
}

// partOfReference reports whether c may stand inside a reference.
func partOfReference(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-/:@", c) >= 0
}
