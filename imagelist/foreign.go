package imagelist

import (
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A format is how the text of a file in the directories of manifests is read.
type format int

const (
	unknownFormat  format = iota // objects only
	objectFormat                 // YAML, JSON
	braceFormat                  // CUE, Jsonnet, HCL
	settingsFormat               // KEY=value, one a line
	scriptFormat                 // shell
	listFormat                   // references, one a line
)

// formats are the formats by the ending of a file's name.
var formats = map[string]format{
	".yaml": objectFormat, ".yml": objectFormat, ".json": objectFormat, ".tmpl": objectFormat, ".json5": objectFormat,
	".cue": braceFormat, ".jsonnet": braceFormat, ".libsonnet": braceFormat, ".tf": braceFormat, ".hcl": braceFormat, ".tfvars": braceFormat, ".nomad": braceFormat,
	".env": settingsFormat, ".properties": settingsFormat, ".ini": settingsFormat, ".toml": settingsFormat, ".conf": settingsFormat, ".cfg": settingsFormat, ".mk": settingsFormat,
	".sh": scriptFormat, ".bash": scriptFormat, ".zsh": scriptFormat, ".ksh": scriptFormat,
	".txt": listFormat, ".list": listFormat, ".lst": listFormat, ".images": listFormat,
}

// templateEndings stand behind the ending of the file that a template makes.
var templateEndings = []string{".j2", ".jinja", ".jinja2", ".tpl", ".gotmpl", ".tftpl", ".envsubst", ".template", ".in", ".dist", ".example", ".sample"}

// formatOf returns the format of a file, and whether it is a template.
func formatOf(name string) (format, bool) {
	base := strings.ToLower(path.Base(name))
	templated := false
	for _, end := range templateEndings {
		if inner, ok := strings.CutSuffix(base, end); ok {
			base, templated = inner, true
			break
		}
	}
	switch {
	case base == ".env" || strings.HasPrefix(base, ".env."), strings.HasPrefix(base, "makefile"), base == "justfile":
		return settingsFormat, templated
	case formats[path.Ext(base)] != unknownFormat:
		return formats[path.Ext(base)], templated
	case templated && path.Ext(base) == "":
		return objectFormat, true
	case strings.HasPrefix(base, "image") || strings.HasSuffix(base, "images"): // images-v1.0
		return listFormat, templated
	}
	return unknownFormat, templated
}

// isManifest reports whether a file is read as YAML or JSON.
func isManifest(name string) bool {
	f, _ := formatOf(name)
	return f == objectFormat
}

// foreignText reads a file among manifests that is neither YAML nor JSON.
func (s *scanner) foreignText(name string) {
	data, err := readLimited(s.fsys, name, maxDocument)
	if err != nil || slices.Contains(data, 0) {
		return // no text
	}
	s.res.Files++
	s.mentionsOf(name, data, false)
	if docs := objects(data); len(docs) > 0 {
		for _, d := range docs {
			s.document(place{file: name, base: d.line, limit: High}, d)
		}
		return
	}
	if unitEndings[path.Ext(name)] {
		s.unitFile(name, data)
		return
	}
	p := place{file: name, limit: Medium, foreign: true}
	f, _ := formatOf(name)
	if f == unknownFormat && strings.HasPrefix(string(data), "#!") && strings.Contains(firstWords(data), "sh") {
		f = scriptFormat
	}
	switch f {
	case braceFormat:
		if n := readBraces(data, dialectOf(name)); n != nil && check(n) == nil {
			s.foreignDocument(p, n)
		}
		for _, t := range braceTokens(string(data), dialectOf(name)) { // arguments of functions
			if r, ok := hosted(t.text); ok && t.kind == textToken && !s.names(r.Registry, r.Repository) {
				s.found(p, spot{line: t.line, written: t.text, rule: "text-value"}, Medium, r)
			}
		}
	case settingsFormat:
		s.noteVariables(name, data)
		s.lines(p, string(data))
	case scriptFormat:
		s.scriptFile(p, string(data))
	case listFormat, unknownFormat:
		s.plainList(p, data)
	}
}

// firstWords is the first line of a file.
func firstWords(data []byte) string {
	l, _, _ := strings.Cut(string(data[:min(len(data), 200)]), "\n")
	return l
}

var pipelineGap = cause{Doubtful, "pipeline", "a pipeline of a CI system: its runner pulls the images, which are listed and not mirrored",
	"add those that run in this cluster to manifests/imageList, " + declare}

const (
	builtReason   = "the image is built, not pulled"
	profileReason = "a service of a profile, which is not started without it"
)

// foreignDocument looks at a document that is no Kubernetes object: the settings
// of another program, values of a chart, a compose file. The images of a program
// that this cluster does not run are only listed.
func (s *scanner) foreignDocument(p place, n *yaml.Node) {
	p.foreign, p.settings = true, true
	p.limit = Medium.weaker(p.limit)
	switch {
	case isPipeline(p.file, n):
		before := len(s.res.Found)
		p = p.optional("a runner of the CI system pulls it")
		s.walkForeign(p, n)
		if len(s.res.Found) > before {
			s.addGap(pipelineGap, Gap{Subject: p.file, File: p.file})
		}
	case isCompose(n):
		s.included(p, n)
		s.composeFile(p, n)
	case s.registryLists(p, n), s.copyLists(p, n):
	default:
		s.included(p, n)
		s.noteHelmRepos(n)
		s.walkForeign(p, n)
	}
}

func (s *scanner) walkForeign(p place, n *yaml.Node) {
	w := walker{s: s, p: p}
	n = withDefaults(n)
	if isSeq(n) {
		w.list(entry{key: "", value: n}, "", inherited{}, 0)
		return
	}
	w.fields(n, "", "", inherited{}, 0)
}

// pipelineFiles are the files in which CI systems look for their pipelines.
var pipelineFiles = wordSet(`.gitlab-ci.yml .gitlab-ci.yaml .drone.yml .drone.yaml .travis.yml azure-pipelines.yml azure-pipelines.yaml bitbucket-pipelines.yml
cloudbuild.yaml cloudbuild.yml cloudbuild.json .woodpecker.yml .woodpecker.yaml .cirrus.yml codefresh.yml buildspec.yml buildspec.yaml appveyor.yml wercker.yml
.pre-commit-config.yaml .goreleaser.yml .goreleaser.yaml .golangci.yml action.yml action.yaml renovate.json devcontainer.json .devcontainer.json`)

// pipelineDirs are the directories of such files.
var pipelineDirs = []string{".github/", ".gitlab/", ".circleci/", ".gitea/", ".woodpecker/", ".buildkite/", ".semaphore/", ".tekton-ci/", ".devcontainer/"}

// isPipeline reports whether a document describes what a CI system runs: by the
// file's name, or by its shape.
func isPipeline(file string, n *yaml.Node) bool {
	base := path.Base(file)
	if pipelineFiles[base] || strings.HasSuffix(base, ".gitlab-ci.yml") {
		return true
	}
	for _, dir := range pipelineDirs {
		if strings.HasPrefix(file, dir) || strings.Contains(file, "/"+dir) {
			return true
		}
	}
	switch jobs := get(n, "jobs"); {
	case text(n, "kind") == "pipeline" && text(n, "apiVersion") == "":
		return true // Drone, Woodpecker
	case isMap(jobs) && (get(n, "on") != nil || get(n, "true") != nil): // YAML 1.1 reads "on" as true
		return true
	case isSeq(jobs) && (isSeq(get(n, "resources")) || isSeq(get(n, "resource_types"))): // Concourse
		return true
	case isSeq(get(n, "stages")):
		for _, e := range entries(n) {
			if get(e.value, "script") != nil {
				return true
			}
		}
	}
	return false
}

// isCompose reports whether a document is a compose file.
func isCompose(n *yaml.Node) bool {
	if text(n, "kind") != "" || text(n, "apiVersion") != "" {
		return false
	}
	for _, e := range entries(get(n, "services")) {
		if isScalar(get(e.value, "image")) || get(e.value, "build") != nil {
			return true
		}
	}
	return false
}

// composeFile takes the images of a compose file's services, with the variables
// of the .env file beside it and their defaults.
func (s *scanner) composeFile(p place, n *yaml.Node) {
	if p.limit == Medium {
		p.limit = High
	}
	vars := s.variablesBeside(p.file)
	for _, e := range entries(get(n, "services")) {
		q, at := p, atKey("services", e.key)
		switch {
		case get(e.value, "build") != nil:
			q = q.optional(builtReason)
		case len(items(get(e.value, "profiles"))) > 0:
			q = q.optional(profileReason)
		}
		w := walker{s: s, p: q}
		if im := get(e.value, "image"); isScalar(im) {
			written := substitute(im.Value, vars)
			s.notePartial(p.file, im.Value)
			if v := judge("image", written); v.confidence == Low || v.confidence == "" && v.reason == "" {
				s.podImage(q, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: written, Line: im.Line}, at+".image", "compose", High)
			} else {
				w.candidate("image", written, im.Line, at+".image")
			}
		}
		s.composed(q, scalarPairs(q, entries(get(e.value, "environment")), at+".environment", nil), "env-split")
		for _, f := range entries(e.value) {
			if f.key != "image" && f.key != "build" {
				w.value(f, at, inherited{}, 1)
			}
		}
	}
}
