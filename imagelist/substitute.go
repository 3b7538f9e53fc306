package imagelist

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// shellVariable is a variable of envsubst, Flux, clusterctl and compose files:
// ${NAME}, ${NAME:-default}, ${NAME:=default}, ${NAME-default}, $NAME.
var shellVariable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=])([^{}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)`)

// substitute puts values into the variables of a text, and defaults into those
// that have none; other variables stay.
func substitute(text string, vars map[string]string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return shellVariable.ReplaceAllStringFunc(text, func(mark string) string {
		m := shellVariable.FindStringSubmatch(mark)
		switch v, ok := vars[m[1]+m[4]]; {
		case ok && v != "":
			return v
		case m[2] != "":
			return m[3]
		}
		return mark
	})
}

// maxVariables bounds the variables that are kept of all files.
const maxVariables = 10_000

// noteVariables keeps the variables that a file of settings gives.
func (s *scanner) noteVariables(name string, data []byte) {
	if s.variables == nil {
		s.variables = map[string]map[string]string{}
	}
	dir := path.Dir(name)
	for l := range strings.Lines(string(data)) {
		m := assignment.FindStringSubmatch(strings.TrimRight(l, "\r\n"))
		if m == nil || s.variableCount > maxVariables {
			continue
		}
		if s.variables[dir] == nil {
			s.variables[dir] = map[string]string{}
		}
		s.variables[dir][m[1]] = m[2]
		s.variableCount++
	}
}

// variablesBeside are the variables of the .env file beside a file, as compose
// programs read it.
func (s *scanner) variablesBeside(name string) map[string]string {
	data, err := readLimited(s.fsys, path.Join(path.Dir(name), ".env"), maxScript)
	if err != nil {
		return nil
	}
	v := scanner{}
	v.noteVariables("x", data)
	return v.variables["."]
}

// noteSubstitutes keeps the variables that a Kustomization of Flux puts into the
// objects of its directory.
func (s *scanner) noteSubstitutes(n *yaml.Node) {
	build := get(n, "spec", "postBuild")
	for _, e := range entries(get(build, "substitute")) {
		if isScalar(e.value) {
			s.substitutes = append(s.substitutes, pair{key: e.key, value: e.value.Value})
		}
	}
	for _, from := range items(get(build, "substituteFrom")) {
		s.substituteFrom = append(s.substituteFrom, sourceKey(text(from, "kind"), "", text(from, "name")))
	}
}

// notePartial keeps the variables that are parts of a reference in a file: the text
// of such a variable is no image by itself.
func (s *scanner) notePartial(file, reference string) {
	names := shellVariable.FindAllStringSubmatch(reference, -1)
	if len(names) == 0 || names[0][0] == reference {
		return
	}
	if s.partial == nil {
		s.partial = map[string]bool{}
	}
	for _, m := range names {
		s.partial[path.Join(path.Dir(file), m[1]+m[4])] = true
	}
}

// dropPartial takes out what files of variables, and lists that scripts read, gave
// for parts of references.
func (s *scanner) dropPartial() {
	s.res.Found = slices.DeleteFunc(s.res.Found, func(f Finding) bool {
		if f.Rule == "plain-list" && s.partFiles[f.File] && !hasHost(f.Written) {
			return true
		}
		kind, _ := formatOf(f.File)
		return kind == settingsFormat && strings.HasPrefix(f.Rule, "text") && s.partial[path.Join(path.Dir(f.File), f.Field)]
	})
}

// fillIn makes findings of the placeholders for which the files have a value:
// one that Flux substitutes, one of a file of variables in the same directory or
// above it. A variable with two values has none.
func (s *scanner) fillIn() {
	global := map[string]string{}
	set := func(key, value string) {
		if old, ok := global[key]; ok && old != value {
			value = ""
		}
		global[key] = value
	}
	for _, p := range s.substitutes {
		set(p.key, p.value)
	}
	for _, key := range s.substituteFrom {
		for k, v := range s.configData(key) {
			set(k, v)
		}
	}
	var kept []Gap
	for _, g := range s.res.Gaps {
		if g.Rule != placeholderGap.rule || !strings.Contains(g.Text, "$") {
			kept = append(kept, g)
			continue
		}
		written := substitute(g.Text, global)
		for dir := path.Dir(g.File); ; dir = path.Dir(dir) {
			written = substitute(written, s.variables[dir])
			if dir == "." || dir == "/" {
				break
			}
		}
		r, err := ref.Parse(written)
		if err != nil || isPlaceholder(written) {
			kept = append(kept, g)
			continue
		}
		s.notePartial(g.File, g.Text)
		s.res.Found = append(s.res.Found, Finding{Reference: r, Source: r, Written: written, File: g.File, Line: g.Line, Object: g.Object, Field: g.Field,
			Rule: "substituted", Confidence: Medium})
	}
	s.res.Gaps = kept
}
