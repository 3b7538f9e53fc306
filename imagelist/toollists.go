package imagelist

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// plainList takes the references of a text that is nothing but references, one a
// line, as release notes of many projects carry them. A line may name it before
// (NAME=REF, NAME: REF, image NAME REF); URLs and addresses of charts are
// left out, and a few lines without a reference when most have one.
func (s *scanner) plainList(p place, data []byte) {
	var lines []pair
	ok, rest, several := true, 0, false
	s.listLines(List{p.file, data}, func(line int, text string) {
		if strings.Contains(text, "://") && !strings.HasPrefix(text, "docker://") {
			return
		}
		image, fields, sure := listLine(text)
		switch {
		case image == "":
			rest++
			ok = ok && fields > 1
		default:
			several = several || fields > 1
			ok = ok && (sure || fields == 1)
			lines = append(lines, pair{value: image, line: line})
		}
	})
	f, _ := formatOf(p.file)
	if len(lines) == 0 || !ok || 2*rest > len(lines) || f == unknownFormat && len(lines) < 2 || isScriptLine(data) {
		s.mentionLines(p, lines)
		return
	}
	p.limit = High
	for _, l := range lines {
		s.add(p, spot{line: l.line, written: l.value, rule: "plain-list"}, High)
	}
}

// isScriptLine reports whether a text begins as a program does.
func isScriptLine(data []byte) bool { return strings.HasPrefix(firstWords(data), "#!") }

// listLine returns the reference of a line of a list, "" when there is none or more
// than one, and the number of words. sure says that it has a path, and a tag or digest.
func listLine(text string) (image string, fields int, sure bool) {
	words := strings.Fields(strings.TrimPrefix(text, "- "))
	for _, w := range words {
		w = strings.Trim(w, `"',`)
		if name, source, split := strings.Cut(w, "="); split && !strings.ContainsAny(name, "/:") || split && hasHost(source) {
			w = source
		}
		v := judge("image", w)
		slash := strings.Contains(w, "/")
		if v.ref.Repository == "" || isNamespace(v.ref) || !v.confidence.Mirrored() && !slash || len(words) > 1 && (!slash || v.confidence != High) {
			continue
		}
		if image != "" {
			return "", len(words), false
		}
		image, sure = w, slash && v.confidence == High
	}
	return image, len(words), sure
}

// mentionLines notes the references of a text that is no list, and that no other rule
// reads.
func (s *scanner) mentionLines(p place, lines []pair) {
	for _, l := range lines {
		if v := judge("image", l.value); v.confidence == High && strings.Contains(l.value, "/") && len(s.mentioned) < maxMentions {
			s.mentioned = append(s.mentioned, mention{p.file, l.line, l.value, v.ref})
		}
	}
}

var everyTagGap = cause{Open, "registry-list", "a list of a program that copies images: it takes every tag, or those that match",
	"write the tags, or add the images to manifests/imageList, " + declare}

// registryLists takes the images of a document that lists them by registry, as
// "skopeo sync" and mindthegap read it: {HOST: {images: {REPOSITORY: [TAG, …]}}}.
// It reports whether this is one.
func (s *scanner) registryLists(p place, n *yaml.Node) bool {
	is := false
	for _, e := range entries(n) {
		if !domain.MatchString(e.key) && !hasHost(e.key+"/") {
			continue
		}
		for _, f := range entries(get(e.value, "images")) {
			is = true
			tags := items(f.value)
			if len(tags) == 0 {
				s.gap(p, spot{line: f.line, field: atKey(e.key, "images"), written: e.key + "/" + f.key}, everyTagGap, "")
			}
			for _, t := range tags {
				s.tagged(p, e.key+"/"+f.key, t, atKey(e.key, "images"))
			}
		}
		for _, key := range []string{"images-by-tag-regex", "images-by-semver"} {
			for _, f := range entries(get(e.value, key)) {
				is = true
				s.gap(p, spot{line: f.line, field: atKey(e.key, key), written: e.key + "/" + f.key}, everyTagGap, "")
			}
		}
	}
	return is
}

// tagged takes a repository with a tag or digest that stands apart.
func (s *scanner) tagged(p place, repository string, tag *yaml.Node, field string) {
	if !isScalar(tag) || tag.Value == "" {
		return
	}
	sep := ":"
	if strings.HasPrefix(tag.Value, "sha256:") {
		sep = "@"
	}
	s.add(p, spot{line: tag.Line, field: field, written: repository + sep + tag.Value, rule: "registry-list"}, High)
}

// tagLists takes a repository with a list of its tags: {name: REPOSITORY, tags: [{tag: TAG}]},
// {repository: REPOSITORY, tags: [TAG]}.
func (w walker) tagLists(n *yaml.Node, path string) {
	tags := items(get(n, "tags"))
	if !w.p.foreign || len(tags) == 0 {
		return
	}
	for _, key := range []string{"repository", "image", "name", "source"} {
		v := get(n, key)
		if !isScalar(v) || !strings.Contains(v.Value, "/") || strings.ContainsAny(v.Value, " @") || noImage(key, v.Value) != "" {
			continue
		}
		for _, t := range tags {
			if isMap(t) {
				t = get(t, "tag")
			}
			if isScalar(t) && judge("image", v.Value+":"+t.Value).confidence == High {
				w.s.tagged(w.p, v.Value, t, atKey(path, "tags"))
			}
		}
		return
	}
}
