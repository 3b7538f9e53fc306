package spec

import (
	"bytes"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The versions that Print writes.
const (
	APIVersion       = "sealer.io/v2" // Cluster, Application, Preflight
	APIVersionConfig = "sealer.io/v1" // Config, Plugin
)

// Print writes f as a Clusterfile that Parse reads as the same File, but for
// comments and for passwords in plain text, in whose place Redacted stands.
func Print(f *File) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	docs := documents(f)
	if len(docs) == 0 {
		return nil, nil // the encoder cannot close a stream that it never began
	}
	for _, doc := range docs {
		if err := enc.Encode(doc); err != nil {
			return nil, fmt.Errorf("print Clusterfile: %w", err)
		}
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("print Clusterfile: %w", err)
	}
	return b.Bytes(), nil
}

func documents(f *File) []*yaml.Node {
	var docs []*yaml.Node
	if doc := own(APIVersion, KindCluster, f.Cluster.Name, f.Cluster); len(doc.Content) > 4 { // more than apiVersion and kind
		docs = append(docs, doc)
	}
	for _, c := range f.Configs {
		docs = append(docs, own(APIVersionConfig, KindConfig, c.Name, c))
	}
	for _, p := range f.Plugins {
		docs = append(docs, own(APIVersionConfig, KindPlugin, p.Name, p))
	}
	if a := f.Application; a != nil {
		docs = append(docs, own(APIVersion, KindApplication, a.Name, *a))
	}
	if p := f.Preflight; p != nil {
		docs = append(docs, own(APIVersion, KindPreflight, p.Name, *p))
	}
	for _, k := range f.Kubeadm {
		docs = append(docs, k.node())
	}
	return docs
}

// own makes a document of one of sealer's kinds; the fields of v that belong
// there go to metadata.
func own(version, kind, name string, v any) *yaml.Node {
	doc, metadata, spec := mapping(), mapping(), encodeStruct(reflect.ValueOf(v), true)
	if name != "" {
		put(metadata, "name", str(name))
	}
	if c, ok := v.(Cluster); ok {
		if len(c.Annotations) > 0 {
			put(metadata, "annotations", encode(reflect.ValueOf(c.Annotations)))
		}
		if len(c.Labels) > 0 {
			put(metadata, "labels", encode(reflect.ValueOf(c.Labels)))
		}
	}
	put(doc, "apiVersion", str(version))
	put(doc, "kind", str(kind))
	if len(metadata.Content) > 0 {
		put(doc, "metadata", metadata)
	}
	if len(spec.Content) > 0 {
		put(doc, "spec", spec)
	}
	return doc
}

// node prints the document; keys are in order of the alphabet.
func (d Document) node() *yaml.Node {
	doc := mapping()
	if d.APIVersion != "" {
		put(doc, "apiVersion", str(d.APIVersion))
	}
	put(doc, "kind", str(d.Kind))
	for _, k := range slices.Sorted(maps.Keys(d.Tree)) {
		put(doc, k, encodeTree(d.Tree[k]))
	}
	return doc
}

// YAML returns the document as YAML, keys in order of the alphabet.
func (d Document) YAML() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(d.node()); err != nil {
		return nil, fmt.Errorf("print %s: %w", d.Kind, err)
	}
	return b.Bytes(), nil
}

func encodeTree(v any) *yaml.Node {
	switch v := v.(type) {
	case map[string]any:
		m := mapping()
		for _, k := range slices.Sorted(maps.Keys(v)) {
			put(m, k, encodeTree(v[k]))
		}
		return m
	case []any:
		s := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for _, e := range v {
			s.Content = append(s.Content, encodeTree(e))
		}
		return s
	case string:
		return str(v)
	}
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		return str(fmt.Sprint(v))
	}
	return &n
}

// encodeStruct prints the fields that are set. In the document's own struct
// the fields that metadata holds are left out.
func encodeStruct(v reflect.Value, document bool) *yaml.Node {
	m := mapping()
	for i, name := range names(v.Type()) {
		if name == "" || document && (name == "name" || v.Type() == reflect.TypeFor[Cluster]() && notSpec(name)) {
			continue
		}
		if f := v.Field(i); !f.IsZero() && (f.Kind() != reflect.Slice && f.Kind() != reflect.Map || f.Len() > 0) {
			put(m, name, encode(f))
		}
	}
	return m
}

func encode(v reflect.Value) *yaml.Node {
	if t, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, _ := t.MarshalText() // Secret and Duration have no errors
		return str(string(text))
	}
	switch v.Kind() {
	case reflect.Pointer:
		return encode(v.Elem())
	case reflect.Struct:
		return encodeStruct(v, false)
	case reflect.Slice:
		s := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			s.Content = append(s.Content, encode(v.Index(i)))
		}
		return s
	case reflect.Map:
		m := mapping()
		for _, k := range slices.Sorted(maps.Keys(v.Interface().(map[string]string))) {
			put(m, k, str(v.MapIndex(reflect.ValueOf(k)).String()))
		}
		return m
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	case reflect.Int:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}
	}
	return str(v.String())
}

func mapping() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"} }

// str is a string that YAML reads as one, quoted where it must be.
func str(s string) *yaml.Node {
	var n yaml.Node
	n.SetString(s)
	return &n
}

func put(m *yaml.Node, key string, value *yaml.Node) {
	m.Content = append(m.Content, str(key), value)
}
