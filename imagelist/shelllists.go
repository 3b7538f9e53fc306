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
// or saves images. It returns the variables and the texts of loops all of whose words
// are known.
func (s *scanner) imageLists(p place, sh *shellReader) map[string]bool {
	arrays, used, known := map[string][]word{}, map[string]bool{}, map[string]bool{}
	for _, a := range sh.arrays {
		arrays[a.name] = append(arrays[a.name], a.words...)
	}
	loops := s.loopsOf(p, sh, arrays)
	take := func(w word) {
		if all := loops.each(w); len(all) > 0 && s.imageWords(p, all, true, true) {
			s.readPattern(loops, w, known)
		}
	}
	for i, cmd := range sh.out {
		words := cmd.words
		if name := path.Base(words[0].text); name == "xargs" || name == "parallel" {
			s.xargs(p, sh, i, known)
			continue
		}
		if takesImages(words[0].text) {
			for _, w := range words[1:] {
				if allHosted(loops.each(w)) {
					take(w)
				}
			}
		}
		if !imagePrograms[path.Base(words[0].text)] || !slices.ContainsFunc(words, func(w word) bool { return imageVerbs[w.text] }) {
			continue
		}
		for _, w := range pulledWords(words) {
			w.text = strings.TrimPrefix(w.text, "docker://")
			if m := variableUse.FindStringSubmatch(w.text); m != nil {
				used[m[1]] = true
				if b := loops.at(m[1], w.line); b != nil {
					b.whole = true
					for b = b.from; b != nil; b = b.from {
						b.part = true
					}
				}
			} else if m := arrayUse.FindStringSubmatch(w.text); m != nil {
				used[m[1]] = true
			} else {
				take(w)
			}
		}
	}
	for _, a := range sh.assigned {
		w := word{text: a.value, line: a.line, dynamic: true}
		if all := loops.each(w); used[a.key] && len(all) > 0 && s.imageWords(p, all, true, true) {
			s.readPattern(loops, w, known)
			known[a.key] = true
		}
	}
	s.wholeWords(p, sh, loops, arrays, used, known)
	return known
}

// xargs takes the rows that xargs or parallel gives to a program that pulls or saves
// images. The text of the command is known when all of them are.
func (s *scanner) xargs(p place, sh *shellReader, i int, known map[string]bool) {
	cmd := sh.out[i]
	at := slices.IndexFunc(cmd.words, func(w word) bool { return imagePrograms[path.Base(w.text)] })
	if at < 0 || !slices.ContainsFunc(cmd.words[at:], func(w word) bool { return imageVerbs[w.text] }) {
		return
	}
	// The mark of -I, or the end, is where the whole row goes; anything beside it
	// makes a part of the row.
	mark := ""
	for j, w := range cmd.words[1:at] {
		if text, ok := strings.CutPrefix(w.text, "-I"); ok {
			if mark = text; mark == "" && j+2 < at {
				mark = cmd.words[j+2].text
			}
		}
	}
	alone := func(w word) bool { return w.text == mark || w.text == "docker://"+mark }
	if mark != "" && !slices.ContainsFunc(cmd.words[at:], alone) {
		return
	}
	var words []word
	for _, r := range s.input(p, sh, i) {
		if mark == "" {
			words = append(words, fieldsOf(r)...)
		} else {
			words = append(words, r)
		}
	}
	known[cmd.String()] = s.imageWords(p, words, true, true)
}

// readPattern notes a text whose variables loops fill, as one that is read.
func (s *scanner) readPattern(loops scriptLoops, w word, known map[string]bool) {
	loops.taken(w.text, w.line)
	known[w.text] = true
	for _, m := range shellVariable.FindAllStringSubmatch(w.text, -1) {
		known[m[1]+m[4]] = true
	}
}

// wholeWords takes the words of loops and arrays that are images by themselves, not
// parts of one, and notes those that are parts.
func (s *scanner) wholeWords(p place, sh *shellReader, loops scriptLoops, arrays map[string][]word, used, known map[string]bool) {
	parts := map[string]bool{}
	sh.parts = map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(loops)) {
		for _, b := range loops[name] {
			if b.part && !b.whole {
				for _, a := range b.arrays {
					parts[a] = true
				}
				for _, w := range b.words {
					s.partFiles[w.file] = true
					sh.parts[w.text] = true
				}
				continue
			}
			if s.imageWords(p, b.words, speaksOfImages(name), b.whole) && b.whole {
				known[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		if !parts[name] && s.imageWords(p, arrays[name], speaksOfImages(name), used[name]) && used[name] {
			known[name] = true
		}
	}
}

// copyWords are words in names of functions that are given images.
var copyWords = wordSet("image images img mirror pull copy sync save preload load import cache")

func takesImages(function string) bool {
	return !imagePrograms[function] && slices.ContainsFunc(words(function), func(w string) bool { return copyWords[w] })
}

func allHosted(all []word) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(w word) bool {
		_, ok := hosted(w.text)
		return !ok
	})
}

// goesThrough reports whether a command is for the images of a list that is known.
func goesThrough(cmd shellCommand, lists map[string]bool) bool {
	return slices.ContainsFunc(cmd.words, func(w word) bool {
		text := strings.TrimPrefix(w.text, "docker://")
		m := variableUse.FindStringSubmatch(text)
		return m != nil && lists[m[1]] || lists[text]
	})
}

// copyVerbs are subcommands with a source and a target.
var copyVerbs = wordSet("copy cp mirror")

// pulledWords are the words of a command that may name what it pulls: not the
// target of a copy, its last word.
func pulledWords(words []word) []word {
	i := slices.IndexFunc(words, func(w word) bool { return copyVerbs[w.text] })
	if i < 0 {
		return words[1:]
	}
	var named []word
	for _, w := range words[i+1:] {
		if !strings.HasPrefix(w.text, "-") {
			named = append(named, w)
		}
	}
	if len(named) > 1 {
		return named[:len(named)-1]
	}
	return named
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
			out = append(out, word{text: f, dynamic: w.dynamic && strings.Contains(f, "$"), line: w.line - len(lines) + 1 + i, file: w.file})
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
		p := p
		if w.file != "" {
			p.file = w.file
		}
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
