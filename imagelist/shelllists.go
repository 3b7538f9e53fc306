package imagelist

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// A shellList is the words that a script puts into an array.
type shellList struct {
	name  string
	words []word
}

var (
	arraySet = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)\+?=$`)
	// arrayUse is "${NAME[@]}", all words of an array.
	arrayUse = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}$`)
	// variableUse is $NAME and ${NAME}, and nothing besides.
	variableUse = regexp.MustCompile(`^\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?$`)
)

// inArray reads the characters that begin, end and separate the words of an array:
// NAME=(WORD …), over several lines too. It reports whether c is one.
func (r *shellReader) inArray(c byte) bool {
	if r.array == "" {
		m := arraySet.FindStringSubmatch(r.word.String())
		if c != '(' || m == nil {
			return false
		}
		r.word.Reset()
		r.current, r.begun, r.array = shellCommand{}, false, m[1]
		return true
	}
	switch c {
	case '\n':
		r.endWord()
		r.line++
	case ')':
		r.endWord()
		r.arrays = append(r.arrays, shellList{r.array, r.current.words})
		r.current, r.array = shellCommand{}, ""
	default:
		return false
	}
	return true
}

// imageVerbs are subcommands of programs of containers that take images.
var imageVerbs = wordSet("pull save copy cp export mirror inspect")

// imagePrograms are programs whose subcommands take images.
var imagePrograms = wordSet("ctr crictl docker nerdctl podman skopeo crane regctl oras hauler buildah img imgpkg")

// imageLists takes the lists of a script whose words are images: arrays and loops
// under a name that says so, and those that a loop gives to a program that pulls
// or saves images. It returns the variables of loops all of whose words are known.
func (s *scanner) imageLists(p place, sh *shellReader) map[string]bool {
	arrays, loops, used := map[string][]word{}, map[string][]word{}, map[string]bool{}
	through := map[string]string{} // the variable of a loop by the array that it goes through
	var patterns []string
	for _, a := range sh.arrays {
		arrays[a.name] = append(arrays[a.name], a.words...)
	}
	for _, cmd := range sh.out {
		words := cmd.words
		if len(words) > 3 && words[0].text == "for" && words[2].text == "in" {
			name := words[1].text
			for _, w := range words[3:] {
				if m := arrayUse.FindStringSubmatch(w.text); m != nil {
					loops[name] = append(loops[name], arrays[m[1]]...)
					through[m[1]] = name
				} else {
					loops[name] = append(loops[name], fieldsOf(w)...)
				}
			}
		}
		if takesImages(words[0].text) {
			for _, w := range words[1:] {
				if all := eachOf(w, loops); len(all) > 0 && allHosted(all) && s.imageWords(p, all, true, true) {
					patterns = append(patterns, w.text)
				}
			}
		}
		if !imagePrograms[path.Base(words[0].text)] || !slices.ContainsFunc(words, func(w word) bool { return imageVerbs[w.text] }) {
			continue
		}
		for _, w := range words[1:] {
			if m := variableUse.FindStringSubmatch(strings.TrimPrefix(w.text, "docker://")); m != nil {
				used[m[1]] = true
			} else if all := eachOf(w, loops); len(all) > 0 && s.imageWords(p, all, true, true) {
				patterns = append(patterns, w.text)
			} else if m := arrayUse.FindStringSubmatch(w.text); m != nil {
				used[m[1]] = true
			}
		}
	}
	known, parts := s.patternsOfLoops(p, sh, patterns, loops, used)
	for _, lists := range []map[string][]word{loops, arrays} {
		for _, name := range slices.Sorted(maps.Keys(lists)) {
			if parts[name] || parts[through[name]] {
				continue
			}
			if s.imageWords(p, lists[name], speaksOfImages(name), used[name]) && used[name] {
				known[name] = true
			}
		}
	}
	return known
}

// patternsOfLoops takes the images of the variables that programs pull and that a
// loop makes of its own one: SOURCE="acme/$part:v1". known are the patterns that are
// read and their variables, parts those that are no image by themselves.
func (s *scanner) patternsOfLoops(p place, sh *shellReader, patterns []string, loops map[string][]word, used map[string]bool) (known, parts map[string]bool) {
	known, parts = map[string]bool{}, map[string]bool{}
	for _, a := range sh.assigned {
		all := eachOf(word{text: a.value, line: a.line, dynamic: true}, loops)
		if used[a.key] && len(all) > 0 && s.imageWords(p, all, true, true) {
			patterns = append(patterns, a.value)
			known[a.key] = true
		}
	}
	for _, text := range patterns {
		known[text] = true
		for _, m := range shellVariable.FindAllStringSubmatch(text, -1) {
			known[m[1]+m[4]] = true
			parts[m[1]+m[4]] = !used[m[1]+m[4]]
		}
	}
	return known, parts
}

// copyWords are words in names of functions that are given images.
var copyWords = wordSet("image images img mirror pull copy sync save preload load import cache")

func takesImages(function string) bool {
	return !imagePrograms[function] && slices.ContainsFunc(words(function), func(w string) bool { return copyWords[w] })
}

func allHosted(all []word) bool {
	return !slices.ContainsFunc(all, func(w word) bool {
		_, ok := hosted(w.text)
		return !ok
	})
}

// goesThrough reports whether a command is for the images of a list that is known.
func goesThrough(cmd shellCommand, lists map[string]bool) bool {
	return slices.ContainsFunc(cmd.words, func(w word) bool {
		m := variableUse.FindStringSubmatch(strings.TrimPrefix(w.text, "docker://"))
		return m != nil && lists[m[1]] || lists[w.text]
	})
}

// maxPattern bounds the words that a loop makes of one.
const maxPattern = 1000

// eachOf are the words that a loop makes of one that has its variable and more:
// acme/lab-$part:v1. There are none where a part is not known.
func eachOf(w word, loops map[string][]word) (out []word) {
	marks := shellVariable.FindAllStringSubmatch(w.text, -1)
	if !w.dynamic || len(marks) != 1 || marks[0][0] == w.text || strings.Contains(w.text, "$(") {
		return nil
	}
	name := marks[0][1] + marks[0][4]
	for _, part := range loops[name] {
		if part.dynamic || len(out) >= maxPattern {
			return nil
		}
		out = append(out, word{text: strings.ReplaceAll(w.text, marks[0][0], part.text), line: w.line})
	}
	return out
}

// unwrapped takes away the programs that run the rest of their words as a
// command: timeout 5m helm install …
func unwrapped(words []word) []word {
	for len(words) > 1 {
		switch program := path.Base(words[0].text); {
		case strings.HasPrefix(program, "-"): // a flag of sudo, which the shell's reader drops
		case wrappers[program]:
		default:
			return words
		}
		i := 1 + slices.IndexFunc(words[1:], func(w word) bool {
			b := path.Base(w.text)
			return b == "helm" || b == "kubectl" || b == "kustomize" || pullers[b] || shells[b] || wrappers[b] || isScriptName(w.text)
		})
		if i < 1 {
			return words
		}
		words = words[i:]
	}
	return words
}

// speaksOfImages reports whether the name of a list says that images are in it.
func speaksOfImages(name string) bool {
	return slices.ContainsFunc(words(name), func(w string) bool {
		return w == "img" || w == "imgs" || strings.HasPrefix(w, "image") || strings.HasSuffix(w, "images")
	})
}

// fieldsOf are the words that a shell makes of one that is not quoted.
func fieldsOf(w word) (out []word) {
	lines := strings.Split(w.text, "\n")
	for i, l := range lines {
		for _, f := range strings.Fields(l) {
			out = append(out, word{f, w.dynamic && strings.Contains(f, "$"), w.line - len(lines) + 1 + i})
		}
	}
	return out
}

// imageWords takes the words of a list. named says that its name speaks of images,
// pulled that a program pulls them, so that each is one. It reports whether all
// words are known.
func (s *scanner) imageWords(p place, words []word, named, pulled bool) bool {
	all := len(words) > 0
	for _, w := range words {
		r, err := ref.Parse(plain(w.text))
		v := judge("image", w.text)
		at := spot{line: w.line, written: plain(w.text), rule: "script-list"}
		switch {
		case w.dynamic:
			all = false
		case v.confidence.Mirrored() && (named || pulled):
			s.add(p, at, v.confidence)
		case err == nil && pulled && v.reason == "" && !isNamespace(r): // redis is one, where an image is all that may stand
			s.found(p, at, Medium, r)
		case err == nil && (named || pulled) && strings.Contains(w.text, "/") && v.confidence == Low:
			s.found(p, at, Medium, r)
		default:
			all = false
		}
	}
	return all
}

// variableReference is a reference whose registry, path or tag is a variable.
var variableReference = regexp.MustCompile(`(?:\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?|(?:[a-z0-9-]+\.)+[a-z]{2,}(?::[0-9]+)?)(?:/[A-Za-z0-9._${}-]+)+:(?:\$[A-Za-z_{(]|[A-Za-z0-9])[A-Za-z0-9._${}-]*`)

// registryWords are words in names of variables that hold the beginning of a reference.
var registryWords = wordSet("registry registries repo repository repos hub prefix mirror harbor image images reg org")

var variableGap = cause{Doubtful, "script-variable", "an image with a variable whose value is known only when the script runs",
	"add those that the cluster pulls to manifests/imageList, " + declare}

// variableReferences tells of the references of a script whose variables have no
// value in it. known are the variables of loops that are read.
func (s *scanner) variableReferences(p place, sh *shellReader, known map[string]bool) {
	n, count := 0, 0
	var at spot
	for l := range strings.Lines(sh.text) {
		n++
		if t := strings.TrimSpace(l); strings.HasPrefix(t, "#") || len(l) > maxLine || !strings.Contains(l, "$") {
			continue
		}
		for _, m := range variableReference.FindAllStringSubmatchIndex(l, -1) {
			text := l[m[0]:m[1]]
			if !strings.Contains(text, "$") || m[0] > 0 && strings.ContainsRune("/:@$", rune(l[m[0]-1])) ||
				m[2] >= 0 && !slices.ContainsFunc(words(l[m[2]:m[3]]), func(w string) bool { return registryWords[w] }) {
				continue
			}
			told := func(g Gap) bool { return g.File == p.file && g.Line == n }
			filled := shellVariable.ReplaceAllStringFunc(substitute(text, sh.vars), func(mark string) string {
				if m := shellVariable.FindStringSubmatch(mark); known[m[1]+m[4]] {
					return m[1] + m[4] // of a loop that is read
				}
				return mark
			})
			if !strings.Contains(filled, "$") || slices.ContainsFunc(s.res.Gaps, told) {
				continue
			}
			if count++; count == 1 {
				at = spot{line: n, written: text}
			}
		}
	}
	if count > 0 {
		s.gap(p, at, variableGap, p.file)
	}
}
