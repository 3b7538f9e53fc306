package imagelist

import (
	"slices"
	"strings"

	"github.com/clusterimage/sealer/registry/ref"
)

// pullers are the programs that pull an image onto a node, as "PROGRAM … pull …
// IMAGE".
var pullers = map[string]bool{"ctr": true, "crictl": true, "docker": true, "nerdctl": true, "podman": true}

var pullGap = cause{Open, "start-command", "it pulls an image that is known only when it runs",
	"add the image to manifests/imageList, and declare it in " + RulesFile + ": gap {subject} because REASON"}

var runGap = cause{Doubtful, "start-command", "it runs a container whose image is not plain to see", pullGap.remedy}

// pull takes the image that a start command, or a script that one runs, pulls:
// the first word behind pull that is no flag and parses as one. Of run and create,
// whose flags have values, it takes a word that names a registry or a path.
func (st *starter) pull(at Command, cmd shellCommand) {
	i := slices.IndexFunc(cmd.words, func(w word) bool { return w.text == "pull" || w.text == "run" || w.text == "create" })
	if i < 0 || i+1 == len(cmd.words) {
		return
	}
	c := pullGap
	if cmd.words[i].text != "pull" {
		c = runGap
	}
	if st.limit != "" {
		c.grade = Doubtful
	}
	words := slices.DeleteFunc(slices.Clone(cmd.words[i+1:]), func(w word) bool { return strings.HasPrefix(w.text, "-") })
	for j, w := range words {
		r := judge("image", w.text).ref
		if cmd.words[i].text == "pull" && j == len(words)-1 {
			r, _ = ref.Parse(w.text) // redis is one, where an image is all that may stand
		} else if !strings.Contains(w.text, "/") || noImage("", w.text) != "" {
			continue
		}
		if !w.dynamic && r.Repository != "" {
			st.s.found(place{file: at.File, object: "command", limit: st.limit}, spot{line: at.Line, written: w.text, rule: "pull"}, High, r)
			return
		}
	}
	st.s.addGap(c, Gap{Subject: at.subject(), File: at.File, Line: at.Line, Text: shorten(cmd.String())})
}
