package render

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/cluster/spec"
)

// AppDir is where the files of applications lie in a rootfs.
const AppDir = "application/apps"

// ConfigPath returns where a Config is written, in the rootfs: its path, below
// the application's directory when it names one.
func ConfigPath(c spec.Config) string {
	if c.AppName != "" {
		return path.Join(AppDir, c.AppName, c.Path)
	}
	return path.Clean(c.Path)
}

// Configs writes the Configs into a rootfs, in order, and returns the paths
// written, sorted. Two Configs of one path build on each other. Nothing is
// written when one has a fault; all faults are *Fault, joined.
func Configs(root *os.Root, configs []spec.Config) ([]string, error) {
	p := newPatch(root)
	for _, c := range configs {
		p.change(ConfigPath(c), "Config "+c.Name, func(old []byte) ([]byte, error) { return Config(c, old) })
	}
	return p.write()
}

// Application writes the files that an Application changes, as Configs does.
func Application(root *os.Root, a spec.Application) ([]string, error) {
	p := newPatch(root)
	for _, c := range a.Configs {
		for _, f := range c.Files {
			at := path.Join(AppDir, c.Name, f.Path)
			if f.Strategy == spec.StrategyRender {
				p.render(at, "Application "+c.Name, f.Data)
				continue
			}
			same := spec.Config{Strategy: f.Strategy, Data: f.Data}
			p.change(at, "Application "+c.Name, func(old []byte) ([]byte, error) { return Config(same, old) })
		}
	}
	return p.write()
}

// A patch collects changes of a rootfs before any of them is written.
type patch struct {
	root  *os.Root
	files map[string]file
	errs  []error
}

func newPatch(root *os.Root) *patch { return &patch{root: root, files: map[string]file{}} }

// old returns the file as it will be after the changes so far. A missing one
// is empty.
func (p *patch) old(at string) (file, error) {
	if f, ok := p.files[at]; ok {
		return f, nil
	}
	f, err := read(p.root, at)
	if errors.Is(err, fs.ErrNotExist) {
		return file{mode: 0o644}, nil
	}
	return f, err
}

func (p *patch) change(at, who string, f func(old []byte) ([]byte, error)) {
	old, err := p.old(at)
	if err == nil {
		old.data, err = f(old.data)
	}
	if err != nil {
		p.errs = append(p.errs, &Fault{Path: at, Err: fmt.Errorf("%s: %w", who, err)})
		return
	}
	p.files[at] = old
}

// render fills the template at a path with data, a YAML mapping.
func (p *patch) render(at, who, data string) {
	var values map[string]any
	err := yaml.Unmarshal([]byte(data), &values)
	var text file
	if err == nil {
		text, err = p.old(at)
	}
	if err != nil {
		p.errs = append(p.errs, &Fault{Path: at, Err: fmt.Errorf("%s: %w", who, err)})
		return
	}
	if text.data, err = Template(at, text.data, values); err != nil {
		p.errs = append(p.errs, err)
		return
	}
	p.files[strings.TrimSuffix(at, Suffix)] = text
}

func (p *patch) write() ([]string, error) {
	if err := errors.Join(p.errs...); err != nil {
		return nil, err
	}
	return writeAll(p.root, p.files)
}

// Config applies a Config to the content of a file and returns the new content.
// A nil old is a file that does not exist.
//
// The processes change the data in order: toJson and toBase64 the whole, or
// after value each value of its mapping; toSecret puts the mapping into the
// data of a Secret, the one in the file or a new one of the Config's name. A
// value that toBase64 encoded is not encoded again.
// Then the strategy: overwrite replaces the file, merge lays the data's mapping
// over the file's: mappings key by key, everything else whole. Comments and
// order of the file stay.
func Config(c spec.Config, old []byte) ([]byte, error) {
	data := []byte(c.Data)
	var byValue, encoded bool
	for p := range strings.SplitSeq(c.Process, "|") {
		var err error
		switch p = strings.TrimSpace(p); p {
		case "":
		case "value":
			byValue = true
		case "toJson":
			data, err = process(data, byValue, toJSON)
		case "toBase64":
			encoded = true
			data, err = process(data, byValue, toBase64)
		case "toSecret":
			return toSecret(c.Name, data, old, encoded)
		default:
			err = errors.New("unknown process")
		}
		if err != nil {
			return nil, fmt.Errorf("process %s: %w", p, err)
		}
	}
	if c.Strategy == spec.StrategyMerge && len(old) > 0 {
		return merge(old, data)
	}
	return data, nil
}

// process applies f to data, or to each value of its mapping.
func process(data []byte, byValue bool, f func([]byte) ([]byte, error)) ([]byte, error) {
	if !byValue {
		return f(data)
	}
	doc, m, err := mapping(data)
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(m.Content); i += 2 {
		text, err := valueText(m.Content[i])
		if err != nil {
			return nil, err
		}
		out, err := f([]byte(text))
		if err != nil {
			return nil, err
		}
		m.Content[i] = &yaml.Node{}
		m.Content[i].SetString(string(out))
	}
	return yaml.Marshal(doc)
}

// valueText returns a scalar's text, or the YAML of a mapping or a list.
func valueText(n *yaml.Node) (string, error) {
	if n.Kind == yaml.ScalarNode {
		return n.Value, nil
	}
	b, err := yaml.Marshal(n)
	return string(b), err
}

func toJSON(data []byte) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

func toBase64(data []byte) ([]byte, error) {
	return []byte(base64.StdEncoding.EncodeToString(data)), nil
}

// toSecret puts data's values into a Secret.
func toSecret(name string, data, old []byte, encoded bool) ([]byte, error) {
	_, values, err := mapping(data)
	if err != nil {
		return nil, fmt.Errorf("process toSecret: %w", err)
	}
	secret := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": map[string]any{"name": name},
	}
	if len(old) > 0 {
		clear(secret)
		if err := yaml.Unmarshal(old, &secret); err != nil || secret["kind"] != "Secret" {
			return nil, errors.New("process toSecret: the file is no Secret: name another path")
		}
	}
	content, _ := secret["data"].(map[string]any)
	if content == nil {
		content = map[string]any{}
	}
	for i := 0; i+1 < len(values.Content); i += 2 {
		text, err := valueText(values.Content[i+1])
		if err != nil {
			return nil, err
		}
		if !encoded {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		content[values.Content[i].Value] = text
	}
	secret["data"] = content
	return yaml.Marshal(secret)
}

// mapping reads data as one document that is a mapping.
func mapping(data []byte) (doc, m *yaml.Node, err error) {
	docs, err := documents(data)
	switch {
	case err != nil:
		return nil, nil, err
	case len(docs) != 1 || docs[0].Content[0].Kind != yaml.MappingNode:
		return nil, nil, errors.New("is not one YAML mapping")
	}
	return docs[0], docs[0].Content[0], nil
}

// documents reads the YAML documents of a file that are not empty.
func documents(data []byte) ([]*yaml.Node, error) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var docs []*yaml.Node
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			if errors.Is(err, io.EOF) {
				return docs, nil
			}
			return nil, err
		}
		if len(n.Content) == 1 && n.Content[0].Tag != "!!null" {
			docs = append(docs, &n)
		}
	}
}

// merge lays over, a mapping, over the only document of a file.
func merge(old, over []byte) ([]byte, error) {
	doc, base, err := mapping(old)
	if err != nil {
		return nil, fmt.Errorf("strategy merge: the file %w", err)
	}
	_, top, err := mapping(over)
	if err != nil {
		return nil, fmt.Errorf("strategy merge: the data %w", err)
	}
	if err := noAliases(base, top); err != nil {
		return nil, fmt.Errorf("strategy merge: %w", err)
	}
	mergeNodes(base, top)
	return yaml.Marshal(doc)
}

// noAliases refuses aliases: one change would show in two places.
func noAliases(nodes ...*yaml.Node) error {
	for _, n := range nodes {
		if n.Kind == yaml.AliasNode || n.Tag == "!!merge" {
			return fmt.Errorf("line %d: has an alias: write the value out", n.Line)
		}
		if err := noAliases(n.Content...); err != nil {
			return err
		}
	}
	return nil
}

func mergeNodes(base, top *yaml.Node) {
	for i := 0; i+1 < len(top.Content); i += 2 {
		key, value := top.Content[i], top.Content[i+1]
		switch old := valueOf(base, key.Value); {
		case old == nil:
			base.Content = append(base.Content, key, value)
		case old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			mergeNodes(old, value)
		default:
			*old = *value
		}
	}
}

// valueOf returns the value of a mapping's key, or nil.
func valueOf(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}
