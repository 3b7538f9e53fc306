package render

import (
	"maps"
	"slices"
	"strings"
)

// An Env holds the values of one machine: by key a string, or a []string
// where the key stood several times or its value had semicolons.
type Env map[string]any

// NewEnv reads KEY=VALUE lines. A key that stands twice makes a list, and so
// does a semicolon: A=1;2 and A=1, A=2 are alike. Lines without = are left out;
// spec.Validate reports them.
func NewEnv(lines []string) Env {
	values := map[string][]string{}
	for _, l := range lines {
		if k, v, ok := strings.Cut(l, "="); ok {
			values[k] = append(values[k], strings.Split(v, ";")...)
		}
	}
	env := Env{}
	for k, v := range values {
		if len(v) == 1 {
			env[k] = v[0]
		} else {
			env[k] = v
		}
	}
	return env
}

// Lines returns KEY=VALUE in order of the keys, for the environment of a
// process. A list becomes words with a space between, which an unquoted
// variable of a shell takes apart again.
func (e Env) Lines() []string {
	out := make([]string, 0, len(e))
	for _, k := range slices.Sorted(maps.Keys(e)) {
		switch v := e[k].(type) {
		case string:
			out = append(out, k+"="+v)
		case []string:
			out = append(out, k+"="+strings.Join(v, " "))
		}
	}
	return out
}
