package kubeadm

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// tree is a mapping of a document.
type tree = map[string]any

// clone copies a value with all below it.
func clone(v any) any {
	switch v := v.(type) {
	case tree:
		out := make(tree, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// merge lays high over low and returns a new tree: mappings key by key,
// anything else whole. Three kinds of lists are joined: certSANs, arguments
// (extraArgs, kubeletExtraArgs) by their names, and extraVolumes by theirs.
func merge(high, low tree) tree {
	out := clone(low).(tree)
	for k, h := range high {
		l, both := out[k]
		switch {
		case h == nil && both: // "key:" without a value says nothing
		case !both:
			out[k] = clone(h)
		default:
			out[k] = mergeValue(k, h, l)
		}
	}
	return out
}

func mergeValue(key string, high, low any) any {
	switch h := high.(type) {
	case tree:
		if l, ok := low.(tree); ok {
			return merge(h, l)
		}
	case []any:
		l, ok := low.([]any)
		switch {
		case !ok:
		case key == "certSANs":
			return union(h, l)
		case key == "extraArgs", key == "kubeletExtraArgs", key == "extraVolumes":
			return byName(h, l)
		}
	}
	return clone(high)
}

// union returns the values of all lists, each once, in order.
func union(lists ...[]any) []any {
	var out []any
	for _, l := range lists {
		for _, v := range l {
			// A list that a Clusterfile gives may hold mappings, which == cannot compare.
			if !slices.ContainsFunc(out, func(o any) bool { return reflect.DeepEqual(o, v) }) {
				out = append(out, v)
			}
		}
	}
	return out
}

// byName returns low's entries whose name high does not have, then high's.
func byName(high, low []any) []any {
	named := map[any]bool{}
	for _, h := range high {
		named[nameOf(h)] = true
	}
	var out []any
	for _, l := range low {
		if !named[nameOf(l)] {
			out = append(out, clone(l))
		}
	}
	return append(out, clone(high).([]any)...)
}

func nameOf(v any) string {
	t, _ := v.(tree)
	name, _ := t["name"].(string)
	return name
}

// sub returns the mapping at key, made when it is not there.
func sub(t tree, key string) tree {
	s, ok := t[key].(tree)
	if !ok {
		s = tree{}
		t[key] = s
	}
	return s
}

// text returns the string at a path, or "".
func text(t tree, path ...string) string {
	s, _ := at(t, path...).(string)
	return s
}

func at(t tree, path ...string) any {
	for _, k := range path[:len(path)-1] {
		t, _ = t[k].(tree)
	}
	return t[path[len(path)-1]]
}

// args are the places of command line arguments in a kubeadm document: a
// mapping up to v1beta3, since v1beta4 a list of name and value.
func args() [][]string {
	return [][]string{
		{"apiServer", "extraArgs"}, {"controllerManager", "extraArgs"}, {"scheduler", "extraArgs"},
		{"etcd", "local", "extraArgs"}, {"nodeRegistration", "kubeletExtraArgs"},
	}
}

// parent returns the mapping that holds the last key of a path, or nil.
func parent(t tree, path []string) tree {
	for _, k := range path[:len(path)-1] {
		t, _ = t[k].(tree)
	}
	return t
}

// argList returns arguments as a list, whichever form they have.
func argList(v any) []any {
	m, ok := v.(tree)
	if !ok {
		l, _ := v.([]any)
		return l
	}
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, tree{"name": k, "value": scalar(m[k])})
	}
	return out
}

// argMap returns a list of arguments as a mapping.
func argMap(list []any) (tree, error) {
	out := tree{}
	for _, a := range list {
		name, t := nameOf(a), tree{}
		if m, ok := a.(tree); ok {
			t = m
		}
		if name == "" {
			return nil, fmt.Errorf("an argument has no name: write {name: …, value: …}, not %v", a)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("the argument %s stands twice, which kubeadm can do since 1.31 only", name)
		}
		out[name] = scalar(t["value"])
	}
	return out, nil
}

// scalar is an argument's value as text: true in YAML is "true" for a program.
func scalar(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
