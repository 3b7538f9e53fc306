package imagelist

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/clusterimage/sealer/registry/ref"
)

// environment looks at the variables of a container: controllers get the
// images that they start by them.
func (s *scanner) environment(p place, ct *yaml.Node, path string) {
	var vars []pair
	nodes := map[string]*yaml.Node{}
	for i, e := range items(get(ct, "env")) {
		v := get(e, "value")
		if !isScalar(v) {
			continue
		}
		name := text(e, "name")
		vars = append(vars, pair{name, v.Value, v.Line, atIndex(path+".env", i) + ".value"})
		nodes[name] = v
	}
	expand(vars, vars)
	used := s.composed(p, vars, "env-split")
	tagged, beside := taggedNames(vars), besideDigests(vars, text(ct, "image"))
	for _, v := range vars {
		if used[v.key] {
			continue
		}
		if r, ok := repositoryAlone(v.value); ok && tagged[r] && speaksOfImage(v.key) {
			s.reject(p, spot{v.line, v.field, v.value, "env"}, repositoryReason+"; another variable names it with a tag")
			continue
		}
		value := strings.TrimSpace(v.value)
		switch {
		case value == "":
		case beside[v.key].Repository != "":
			s.found(p, spot{v.line, v.field, value, "env-digest"}, Medium, beside[v.key])
		case digestAlone.MatchString(value) && p.embedded == 0:
			s.gap(p, spot{v.line, v.field, value, ""}, digestGap, v.key)
		case strings.HasPrefix(value, "{") || strings.HasPrefix(value, "["), mayHoldPods(value):
			q := p
			q.images, q.settings = speaksOfImage(v.key), true
			s.embedded(q, nodes[v.key], v.field)
		case strings.ContainsAny(value, "\n,; "):
			s.references(p, v, speaksOfImage(v.key), "env")
		case strings.Contains(value, "=") && !strings.Contains(value, "@sha256:"):
			s.references(p, v, speaksOfImage(v.key), "env")
		default:
			s.setting(p, v, "env")
		}
	}
}

// digestAlone is a digest without the repository that the program puts before it.
var digestAlone = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

var digestGap = cause{Doubtful, "digest", "a digest alone: the program knows the repository, perhaps that of an image",
	"add the image to manifests/imageList, " + declare}

// taggedNames are the names of the images that variables give with a tag or a
// digest.
func taggedNames(vars []pair) map[string]bool {
	names := map[string]bool{}
	for _, v := range vars {
		if _, ok := repositoryAlone(v.value); ok || !strings.ContainsAny(v.value, ":@") {
			continue
		}
		if r, err := ref.Parse(plain(v.value)); err == nil {
			names[r.Name()] = true
		}
	}
	return names
}

// repositoryAlone returns the name of an image that a value gives without tag
// and digest.
func repositoryAlone(value string) (string, bool) {
	value = plain(value)
	if _, tag := splitTag(value); tag != "" || strings.Contains(value, "@") || !strings.Contains(value, "/") {
		return "", false
	}
	r, err := ref.Parse(value)
	return r.Name(), err == nil
}

// expand replaces $(NAME) by the value of a variable that the container has,
// as the kubelet does; others stay.
func expand(in, vars []pair) {
	for i := range in {
		for _, v := range vars {
			if !strings.Contains(in[i].value, "$(") {
				break
			}
			name := "$(" + v.key + ")"
			if n := strings.Count(in[i].value, name); n > 0 && len(in[i].value)+n*len(v.value) < maxLine {
				in[i].value = strings.ReplaceAll(in[i].value, name, v.value)
			}
		}
	}
}

// variables returns the variables of a container whose value it says.
func variables(ct *yaml.Node) (vars []pair) {
	for _, e := range items(get(ct, "env")) {
		if v := get(e, "value"); isScalar(v) {
			vars = append(vars, pair{key: text(e, "name"), value: v.Value})
		}
	}
	return vars
}

// composed adds the references that are split over pairs, and returns the
// keys that they used.
func (s *scanner) composed(p place, pairs []pair, rule string) map[string]bool {
	used := map[string]bool{}
	for _, c := range compose(pairs, false, inherited{}) {
		if !c.speaksOfImage() {
			continue
		}
		s.add(p, spot{c.at.line, c.at.field, c.written, rule}, c.confidence)
		for _, u := range c.used {
			used[u.key] = true
		}
	}
	return used
}

// speaksOfImage reports whether pairs that stand among many others, in an
// environment or a ConfigMap, are certainly parts of a reference: a key says
// image, repository or registry and another tag or digest, or the value
// begins with a registry.
func (c composition) speaksOfImage() bool {
	for _, u := range c.used {
		if strings.Contains(norm(u.key), "image") {
			return true
		}
	}
	_, ok := hosted(c.written)
	_, r := roleOf(c.at.key)
	return ok || r == repositoryRole && strings.Contains(c.written, "/")
}

// setting decides on one value: of a variable, a flag, a key of a ConfigMap.
func (s *scanner) setting(p place, v pair, rule string) {
	value := plain(v.value)
	if isPushed(v.key) {
		p = p.optional("the image is made by the program, not pulled")
	}
	if speaksOfImage(v.key) {
		got := judge(v.key, value)
		switch {
		case got.confidence == Medium && repositoryOnly(v.key):
			s.reject(p, spot{v.line, v.field, value, rule}, repositoryReason+"; the tag is added by the program")
		case got.confidence != "":
			s.add(p, spot{v.line, v.field, value, rule}, got.confidence)
		case got.reason == "a placeholder" && p.embedded == 0 && strings.Contains(value, "/"):
			s.gap(p, spot{v.line, v.field, value, ""}, placeholderGap, "")
		case got.reason != "" && strings.ContainsAny(value, "/:@") && !strings.HasPrefix(value, "/"):
			s.reject(p, spot{v.line, v.field, value, rule}, got.reason)
		}
		return
	}
	if r, ok := hosted(value); ok {
		if isJudged(v.key) {
			s.reject(p, spot{v.line, v.field, value, rule}, "allowed or refused, not pulled")
			return
		}
		s.found(p, spot{v.line, v.field, value, rule + "-value"}, Medium, r)
	}
}

const repositoryReason = "a repository"

var repositoryKey = regexp.MustCompile(`(?i)base|repo|prefix|name$|registr`)

// repositoryOnly reports whether a key names an image to which the program
// adds a tag: --prometheus-default-base-image.
func repositoryOnly(key string) bool { return repositoryKey.MatchString(key) }

var listSeparators = regexp.MustCompile(`[\s,;]+`)

// references looks at a value with several words: lists of references, lines
// of version=reference.
func (s *scanner) references(p place, v pair, images bool, rule string) {
	if isJudged(v.key) {
		return
	}
	used := s.composed(p, settingsIn(v), rule+"-split")
	line := v.line
	for l := range strings.Lines(v.value) {
		for _, word := range listSeparators.Split(strings.TrimSpace(l), -1) {
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				key, value = "", word
			}
			if used[key] {
				continue
			}
			value = strings.Trim(value, `"'`)
			keyed := images && (ok || listOfImages(v.value)) || speaksOfImage(key)
			switch {
			case keyed && strings.ContainsAny(value, "/:"):
				if got := judge(key, value); got.confidence.Mirrored() {
					s.add(p, spot{line, v.field, value, rule + "-list"}, got.confidence)
				}
			default:
				if r, ok := hosted(value); ok {
					s.found(p, spot{line, v.field, value, rule + "-value"}, Medium, r)
				}
			}
		}
	}
}

// settingsIn returns the settings in one value: image.repository=REPO,image.tag=TAG.
func settingsIn(v pair) (out []pair) {
	if strings.Count(v.value, "=") < 2 || len(v.value) > maxLine {
		return nil
	}
	for _, word := range listSeparators.Split(v.value, -1) {
		if key, value, ok := strings.Cut(word, "="); ok && key != "" {
			out = append(out, pair{key, strings.Trim(value, `"'`), v.line, v.field})
		}
	}
	return out
}

// listOfImages reports whether a text is nothing but words without white
// space inside, as a list of references is, not a sentence.
func listOfImages(s string) bool {
	for _, w := range listSeparators.Split(strings.TrimSpace(s), -1) {
		if !strings.ContainsAny(w, "/:") || strings.HasSuffix(w, ":") {
			return false
		}
	}
	return true
}

var flagWord = regexp.MustCompile(`^--?([A-Za-z][\w.-]*)(?:=(.*))?$`)

// arguments looks at the command and the arguments of a container.
func (s *scanner) arguments(p place, ct *yaml.Node, path string) {
	for _, list := range []string{"command", "args"} {
		var words []pair
		for i, it := range items(get(ct, list)) {
			if !isScalar(it) {
				continue
			}
			field := atIndex(atKey(path, list), i)
			if strings.ContainsAny(it.Value, "\n") || len(strings.Fields(it.Value)) > 1 && !isOneFlag(it.Value) {
				s.flags(p, scriptWords(it.Value, it.Line, field, isLiteral(it)), "script")
				continue
			}
			words = append(words, pair{value: it.Value, line: it.Line, field: field})
		}
		expand(words, variables(ct))
		s.flags(p, words, "arg")
	}
}

// isOneFlag reports whether an argument with spaces in it is one flag with a
// value, not a script.
func isOneFlag(s string) bool { return flagWord.MatchString(s) && strings.Contains(s, "=") }

func isLiteral(n *yaml.Node) bool { return n.Style&yaml.LiteralStyle != 0 }

// scriptWords takes a shell script into words, comments left out. A quoted
// string with spaces comes as several words, which does no harm here.
func scriptWords(text string, line int, field string, literal bool) []pair {
	var out []pair
	for l := range strings.Lines(text) {
		if literal {
			line++ // the text begins on the line after its "|"
		}
		if strings.HasPrefix(strings.TrimSpace(l), "#") {
			continue
		}
		for _, w := range strings.Fields(l) {
			if w = strings.Trim(w, `"'`+"`;,()\\"); w != "" {
				out = append(out, pair{value: w, line: line, field: field})
			}
		}
	}
	return out
}

// flags looks at words: --x-image=REF, --x-image REF, KEY=REF, and words that
// are references with a registry.
func (s *scanner) flags(p place, words []pair, rule string) {
	var flags []pair
	for i := 0; i < len(words); i++ {
		w := words[i]
		m := flagWord.FindStringSubmatch(w.value)
		switch {
		case m != nil && strings.Contains(w.value, "="):
			w.key, w.value = m[1], strings.Trim(m[2], `"'`)
		case m != nil && i+1 < len(words) && !strings.HasPrefix(words[i+1].value, "-"):
			i++
			w = words[i]
			w.key = m[1]
		case m != nil:
			continue
		default:
			if key, value, ok := strings.Cut(w.value, "="); ok && rule == "script" {
				w.key, w.value = key, strings.Trim(value, `"'`)
			}
		}
		if w.key == "container-image" {
			w.value = strings.Replace(w.value, "#", "/", 1) // as enroot writes the registry: HOST#PATH:TAG
		}
		flags = append(flags, w)
	}
	used := s.composed(p, keyed(flags), rule+"-split")
	for _, f := range flags {
		switch {
		case f.key != "" && used[f.key]:
		case strings.ContainsAny(f.value, ",= ") && !strings.Contains(f.value, "@sha256:"):
			s.references(p, f, speaksOfImage(f.key), rule)
		default:
			s.setting(p, f, rule)
		}
	}
}

func keyed(ps []pair) []pair {
	var out []pair
	for _, p := range ps {
		if p.key != "" {
			out = append(out, p)
		}
	}
	return out
}

// podAnnotations looks at the annotations of a pod template: injectors take
// the image of a sidecar from them.
func (s *scanner) podAnnotations(p place, n *yaml.Node, path string) {
	var parts []pair
	for _, e := range entries(n) {
		if isScalar(e.value) {
			parts = append(parts, pair{e.key, e.value.Value, e.value.Line, atKey(path+".metadata.annotations", e.key)})
		}
	}
	used := s.composed(p, parts, "annotation")
	for _, e := range entries(n) {
		if isScalar(e.value) && annotationOfImage(e.key) && !used[e.key] {
			if v := judge(e.key, e.value.Value); v.confidence.Mirrored() {
				s.add(p, spot{e.value.Line, atKey(path+".metadata.annotations", e.key), strings.TrimSpace(e.value.Value), "annotation"}, Medium)
			}
		}
	}
}

// objectAnnotations looks at the annotations of an object, which announce
// images rather than use them.
func (s *scanner) objectAnnotations(p place, n *yaml.Node) {
	p = p.optional("an annotation names it")
	for _, e := range entries(get(n, "metadata", "annotations")) {
		if isScalar(e.value) && annotationOfImage(e.key) {
			if v := judge(e.key, e.value.Value); v.confidence.Mirrored() {
				s.add(p, spot{e.value.Line, atKey("metadata.annotations", e.key), strings.TrimSpace(e.value.Value), "annotation"}, Optional)
			}
		}
	}
}

func annotationOfImage(key string) bool {
	name := key[strings.LastIndexByte(key, '/')+1:]
	return isImageKey(name)
}
