package imagelist

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// elsewherePulls are subcommands of the programs that pull, whose references are
// names of images that are made here, or go elsewhere.
var elsewherePulls = wordSet("push tag build buildx save load import export rmi rm login logout")

// scriptFile looks at a script that lies among manifests, whoever runs it: the
// images that its commands pull, those in lists that it goes through, and those
// that variables name.
func (s *scanner) scriptFile(p place, text string) {
	st := &starter{s: s, rootfs: s.rootfs(), limit: p.limit}
	sh := s.readScript(s.fsys, p.file, text, nil)
	lists := s.imageLists(p, sh)
	var named []pair
	for _, a := range sh.assigned {
		s.wordsOfList(p, shellCommand{words: []word{{text: a.value}}, line: a.line}, sh.parts)
		if strings.Contains(a.value, "$") {
			continue // known only when it runs
		}
		named = append(named, a)
	}
	used := s.composed(p, named, "script-split")
	for _, a := range named {
		if !used[a.key] && speaksOfImage(a.key) && !strings.ContainsAny(a.value, " \n") {
			s.setting(p, a, "script")
		}
	}
	for i, cmd := range sh.out {
		at := Command{File: p.file, Line: cmd.line}
		words := cmd.words
		cmd.before = sh.out[:i]
		switch program := path.Base(words[0].text); {
		case pullers[program]:
			if copiesOnlyThen(cmd) {
				st.tellPull(at, cmd)
			}
			if slices.ContainsFunc(words[1:], func(w word) bool { return elsewherePulls[w.text] }) {
				continue
			}
			if !goesThrough(cmd, lists) {
				st.pull(at, cmd)
			}
		case program == "xargs" || program == "parallel":
			if !lists[cmd.String()] && slices.ContainsFunc(words, func(w word) bool { return pullers[path.Base(w.text)] }) && slices.ContainsFunc(words, func(w word) bool { return w.text == "pull" }) {
				st.tellPull(at, cmd)
			}
		case copiesOnlyThen(cmd):
			st.tellPull(at, cmd)
		case program == "kubectl" || program == "oc":
			st.kubectl(commandPlace{at: at, script: p.file, dirs: []string{path.Dir(p.file), "."}}, cmd)
		case program == "helm" && len(words) > 4 && words[1].text == "repo" && words[2].text == "add":
			s.noteHelmRepo(words[3].text, words[4].text)
		}
		s.wordsOfList(p, cmd, sh.parts)
	}
	for _, h := range sh.here {
		for i, l := range strings.Split(h.text, "\n") { // the lines that a loop reads
			if fields := strings.Fields(l); len(fields) == 1 {
				s.wordsOfList(p, shellCommand{words: []word{{text: fields[0]}}, line: h.line + i}, sh.parts)
			}
		}
	}
	s.lines(p, text)
	s.variableReferences(p, sh, lists)
}

// tellPull tells of a command of a script whose images are known only when it runs.
func (st *starter) tellPull(at Command, cmd shellCommand) {
	st.s.addGap(cause{Doubtful, pullGap.rule, pullGap.reason, pullGap.remedy},
		Gap{Subject: at.subject(), File: at.File, Line: at.Line, Text: shorten(cmd.String())})
}

// copiesOnlyThen reports whether a command copies images that are not plain to see:
// all of a release or a catalog, or one whose name is a variable.
func copiesOnlyThen(cmd shellCommand) bool {
	has := func(text string) bool {
		return slices.ContainsFunc(cmd.words, func(w word) bool { return w.text == text })
	}
	switch path.Base(cmd.words[0].text) {
	case "oc", "oc-mirror":
		return has("adm") && has("mirror") && (has("release") || has("catalog"))
	case "docker":
		return has("imagetools") && has("create") && cmd.words[len(cmd.words)-1].dynamic
	}
	return false
}

// sources is a line of a script that takes in a file: source NAME, or . NAME.
var sources = regexp.MustCompile(`(?m)^\s*(?:source|\.)\s+["']?(?:\$\{?[A-Za-z_][A-Za-z0-9_]*\}?/|\$\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)/)?([A-Za-z0-9._/-]+)["']?`)

// readScript reads a script that is given the variables env, with the variables, the
// arrays and the functions of the files that it takes in, as far as those lie here:
// in its directory, or relative to it.
func (s *scanner) readScript(fsys fs.FS, file, text string, env map[string]string) *shellReader {
	vars := map[string]string{}
	functions := map[string]shellFunction{}
	var arrays []shellList
	for _, m := range sources.FindAllStringSubmatch(text, maxScripts) {
		if path.IsAbs(m[1]) {
			continue
		}
		name := path.Join(path.Dir(file), m[1])
		data, err := readLimited(fsys, name, maxScript)
		if err != nil {
			continue
		}
		sh := readShell(string(data), vars)
		maps.Copy(vars, sh.vars)
		for _, a := range sh.arrays {
			for i := range a.words {
				a.words[i].file = name
			}
			arrays = append(arrays, a)
		}
		for name, f := range functionsOf(string(data)) {
			functions[name] = shellFunction{body: f.body}
		}
	}
	maps.Copy(vars, env)
	sh := readShell(text, vars)
	sh.arrays = append(arrays, sh.arrays...)
	maps.Copy(functions, functionsOf(text))
	sh.call(functions)
	return sh
}

// pullsImages reports whether a text is a command that pulls an image.
func pullsImages(s string) bool {
	i := strings.Index(s, " pull ")
	if i < 0 {
		return false
	}
	for name := range pullers {
		if strings.Contains(s[:i], name) {
			return true
		}
	}
	return false
}

// scriptText looks at a text of an object or of settings that is a command, or a
// script.
func (s *scanner) scriptText(p place, n *yaml.Node, field string) {
	for _, cmd := range shellCommands(n.Value, nil) {
		if !pullers[path.Base(cmd.words[0].text)] || !slices.ContainsFunc(cmd.words, func(w word) bool { return w.text == "pull" }) {
			continue
		}
		last := cmd.words[len(cmd.words)-1]
		if r, err := ref.Parse(last.text); err == nil && !last.dynamic && !isPlaceholder(last.text) {
			s.found(p, spot{n.Line, field, last.text, "pull"}, Medium, r)
		}
	}
}

// wordsOfList takes the references among the words of a command, where they have
// a registry, and all of the words of a list of nothing but references that are no
// parts of others.
func (s *scanner) wordsOfList(p place, cmd shellCommand, parts map[string]bool) {
	for _, w := range cmd.words {
		if key, value, ok := strings.Cut(w.text, "="); ok {
			if strings.HasPrefix(key, "--to") || strings.HasPrefix(key, "--dest") {
				continue // where a copy goes
			}
			w.text = value // a flag, a setting
		}
		fields := strings.Fields(w.text)
		list := len(fields) > 1 && listOfImages(w.text)
		if w.dynamic && !list {
			continue
		}
		for i, field := range fields {
			at := spot{line: cmd.line + i, written: strings.Trim(field, `"'`), rule: "script-value"}
			if len(fields) == 1 || !strings.Contains(w.text, "\n") {
				at.line = cmd.line
			}
			if r, ok := hosted(at.written); ok {
				s.found(p, at, Medium, r)
			} else if list && !parts[at.written] && judge("image", at.written).confidence.Mirrored() {
				s.add(p, at, Medium)
			}
		}
	}
}
