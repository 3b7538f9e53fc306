package imagelist

import (
	"fmt"
	"path"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// A mention is a text that looks like an image, wherever it stands in a file. When
// the scan ends, those that no rule took or rejected are told, so that an image in
// a place that no rule knows is not missed in silence.
type mention struct {
	file string
	line int
	text string
	ref  ref.Reference
}

// The limits of mentions.
const (
	maxMentions    = 50_000
	maxMentionFile = 4 << 20 // bytes of a file, or a rendering, that is searched
)

// prose are the endings of files for people, whose images are examples, and of
// files that are no text.
var prose = wordSet(".md .markdown .rst .adoc .html .htm .css .svg .png .jpg .jpeg .gif .ico .pem .crt .key .lock .sum .mod .tgz .gz .zip .tar .log")

// mentionsOf notes the texts of a file that look like images. Comments and
// definitions, whose descriptions have examples, are left out.
func (s *scanner) mentionsOf(file string, data []byte, rendered bool) {
	if len(data) > maxMentionFile || prose[strings.ToLower(path.Ext(file))] {
		return
	}
	text := string(data)
	n, applied, definition := 0, false, false
	for l := range strings.Lines(text) {
		n++
		if strings.HasPrefix(l, "---") {
			applied, definition = false, false
		}
		if strings.Contains(l, "CustomResourceDefinition") && strings.HasPrefix(strings.TrimSpace(l), "kind:") {
			definition = true
		}
		last := applied
		applied = strings.Contains(l, "last-applied-configuration") || strings.Contains(l, "alm-examples")
		if last || applied || definition || len(s.mentioned) >= maxMentions || len(l) > maxLine || !strings.ContainsAny(l, ":@") {
			continue
		}
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '#' || l[0] == ';' || l[0] == '*' || strings.HasPrefix(l, "//") || strings.HasPrefix(l, "--") {
			continue
		}
		if i := commentAt(l); i > 0 {
			l = l[:i]
		}
		at := n
		if rendered {
			at = 0
		}
		s.mentionsIn(file, at, l)
	}
}

// mentionsIn notes those of one line.
func (s *scanner) mentionsIn(file string, line int, l string) {
	key := ""
	for word := range strings.FieldsFuncSeq(l, func(c rune) bool { return strings.ContainsRune(" \t\"'`,;()[]{}<>|=\\", c) }) {
		before := key
		key = strings.TrimSuffix(word, ":")
		if !strings.ContainsAny(word, ":@") || strings.HasSuffix(word, ":") {
			continue
		}
		if isJudged(before) || strings.HasPrefix(word, "sha256:") {
			continue
		}
		if strings.Contains(word, "/") {
			if r, ok := hosted(word); ok {
				s.mentioned = append(s.mentioned, mention{file, line, word, r})
				continue
			}
		}
		if isImageKey(before) && !strings.Contains(word, "://") {
			if v := judge(before, word); v.confidence == High {
				s.mentioned = append(s.mentioned, mention{file, line, word, v.ref})
			}
		}
	}
}

var mentionGap = cause{Doubtful, "mention", "", "add those that the cluster pulls to manifests/imageList, " + declare}

// mentions makes a doubtful gap of each file with texts that look like images, in
// places where no rule looks.
func (s *scanner) mentions() {
	known, quoted := map[ref.Reference]bool{}, map[string]bool{}
	for _, f := range s.res.Found {
		known[f.Reference], known[f.Source], quoted[f.Written] = true, true, true
	}
	for _, f := range s.res.Rejected {
		known[f.Reference], quoted[f.Written] = true, true
	}
	for _, g := range s.res.Gaps {
		quoted[g.Text] = true
	}
	type first struct {
		at   int
		more map[ref.Reference]bool
	}
	files := map[string]*first{}
	for i, m := range s.mentioned {
		if known[m.ref] || quoted[m.text] {
			continue
		}
		if files[m.file] == nil {
			files[m.file] = &first{i, map[ref.Reference]bool{}}
		}
		files[m.file].more[m.ref] = true
	}
	for i, m := range s.mentioned {
		f := files[m.file]
		if f == nil || f.at != i {
			continue
		}
		g := Gap{Subject: m.file, File: m.file, Line: m.line, Text: m.text, Reason: "looks like an image, in a place where none is looked for"}
		if n := len(f.more) - 1; n > 0 {
			g.Reason += fmt.Sprintf(" (and %d more in the file)", n)
		}
		s.addGap(mentionGap, g)
	}
}
