package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// KubeadmKinds are the kinds that become a Document.
func KubeadmKinds() []string {
	return []string{
		"InitConfiguration", "ClusterConfiguration", "JoinConfiguration",
		"KubeletConfiguration", "KubeProxyConfiguration", "KubeadmConfig",
	}
}

func ownKinds() []string {
	return []string{KindCluster, KindConfig, KindPlugin, KindApplication, KindPreflight}
}

// groups are the API groups that sealer and its forerunners used.
func groups() []string {
	return []string{"sealer.io", "sealer.cloud", "sealer.aliyun.com", "cluster.sealer.cool", "sealer.cool", "zlink.aliyun.com"}
}

// Parse reads a Clusterfile. name stands in faults. Faults are *Fault, joined
// in line order. The File holds every part that could be read.
func Parse(name string, data []byte) (*File, error) {
	d := &decoder{faults: faults{file: name}}
	f := &File{name: name, places: map[string]place{}}
	if len(data) > maxSize {
		d.add(0, "", "larger than %d bytes", maxSize)
		return f, d.join()
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for !d.spent {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.syntax(err)
			break
		}
		if len(n.Content) == 1 && !isNull(n.Content[0]) {
			d.document(f, n.Content[0])
		}
	}
	return f, d.join()
}

// yamlLine finds the line that yaml.v3 names in its errors.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

func (d *decoder) syntax(err error) {
	line, text := 0, err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	d.add(line, "documents after this line are not read", "not YAML: %s", text)
}

// A header is the beginning of a document: its kind, its API group and version,
// and its line.
type header struct {
	kind, group, version string
	line                 int
}

func (d *decoder) document(f *File, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.add(n.Line, "", "a document must be a mapping with apiVersion and kind, not %s", kindOf(n))
		return
	}
	h := header{line: n.Line}
	var rest []pair
	for _, p := range d.pairs(n, 0) {
		switch p.key {
		case "apiVersion":
			h.group, h.version, _ = strings.Cut(p.value.Value, "/")
		case "kind":
			h.kind, h.line = p.value.Value, p.line
		case "status": // written by the original; not part of the wanted state
		default:
			rest = append(rest, p)
		}
	}
	all := slices.Concat(ownKinds(), KubeadmKinds())
	switch {
	case h.kind == "":
		d.add(h.line, "known are "+strings.Join(all, ", "), "the document has no kind")
	case slices.Contains(KubeadmKinds(), h.kind):
		d.kubeadm(f, h, rest)
	case !slices.Contains(ownKinds(), h.kind):
		d.add(h.line, didYouMean(h.kind, all), "unknown kind %q", h.kind)
	case h.group == "":
		d.add(h.line, "write: apiVersion: sealer.io/v2", "the %s has no apiVersion", h.kind)
	case !slices.Contains(groups(), h.group):
		d.add(h.line, "write: apiVersion: sealer.io/v2", "apiVersion %s/%s is none of sealer's", h.group, h.version)
	default:
		d.own(f, h, rest)
	}
}

func (d *decoder) kubeadm(f *File, h header, rest []pair) {
	doc := Document{Kind: h.kind, Tree: map[string]any{}}
	if h.group != "" {
		doc.APIVersion = strings.TrimSuffix(h.group+"/"+h.version, "/")
	}
	for _, p := range rest {
		doc.Tree[p.key] = d.tree(p.value, 1)
	}
	for _, o := range f.Kubeadm {
		if o.Kind == h.kind {
			f.warn(d.file, h.line, "", "a second %s: where the two differ, the earlier one counts", h.kind)
		}
	}
	f.Kubeadm = append(f.Kubeadm, doc)
}

func (f *File) warn(file string, line int, fix, format string, args ...any) {
	f.Warnings = append(f.Warnings, &Fault{File: file, Line: line, Fix: fix, Msg: fmt.Sprintf(format, args...)})
}

// own reads a document of one of sealer's kinds.
func (d *decoder) own(f *File, h header, rest []pair) {
	d.places = map[string]place{"": {d.file, h.line}}
	switch h.kind {
	case KindCluster:
		d.cluster(f, h, rest)
	case KindConfig:
		var c Config
		c.Name = d.spec(rest, &c).Name
		f.Configs = append(f.Configs, c)
		d.keep(f, configKey(c.Name))
	case KindPlugin:
		var p Plugin
		p.Name = d.spec(rest, &p).Name
		if p.Type == "" {
			p.Type = p.Name // the first sealers had no type
		}
		f.Plugins = append(f.Plugins, p)
		d.keep(f, pluginKey(p.Name))
	case KindApplication:
		var a Application
		a.Name = d.spec(rest, &a).Name
		if d.once(f.Application != nil, h) {
			f.Application = &a
			d.keep(f, KindApplication)
		}
	case KindPreflight:
		var p Preflight
		p.Name = d.spec(rest, &p).Name
		if d.once(f.Preflight != nil, h) {
			f.Preflight = &p
			d.keep(f, KindPreflight)
		}
	}
}

func configKey(name string) string { return KindConfig + "/" + name }
func pluginKey(name string) string { return KindPlugin + "/" + name }

// once reports a second document of a kind that stands once.
func (d *decoder) once(there bool, h header) bool {
	if there {
		d.add(h.line, "keep one of them", "a second %s", h.kind)
	}
	return !there
}

// keep stores where the fields of the document just read were written.
func (d *decoder) keep(f *File, key string) {
	for path, p := range d.places {
		f.places[key+":"+path] = p
	}
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Labels      map[string]string `json:"labels"`
	// CreationTimestamp is null in files that the original wrote.
	CreationTimestamp string `json:"creationTimestamp"`
}

// spec reads metadata and spec of a document; into is a pointer.
func (d *decoder) spec(rest []pair, into any) metadata {
	var m metadata
	for _, p := range rest {
		switch p.key {
		case "metadata":
			d.decode(p.value, reflect.ValueOf(&m).Elem(), "metadata", 1)
		case "spec":
			d.decode(p.value, reflect.ValueOf(into).Elem(), "spec", 1)
		default:
			d.add(p.line, didYouMean(p.key, []string{"metadata", "spec"}), "unknown field %q in the document", p.key)
		}
	}
	return m
}
