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
// whose flags have values, it takes the first that is none of theirs, else a word
// that names a registry or a path.
func (st *starter) pull(at Command, cmd shellCommand) {
	i := slices.IndexFunc(cmd.words, func(w word) bool { return w.text == "pull" || w.text == "run" || w.text == "create" })
	if i < 0 || i+1 == len(cmd.words) {
		return
	}
	if i > 0 && madeThings[cmd.words[i-1].text] {
		return
	}
	c := pullGap
	if cmd.words[i].text != "pull" {
		c = runGap
	}
	if st.limit != "" {
		c.grade = Doubtful
	}
	if w, ok := runImage(cmd.words, i); ok {
		r, _ := ref.Parse(w.text)
		st.s.found(place{file: at.File, object: "command", limit: st.limit}, spot{line: at.Line, written: w.text, rule: "pull"}, High, r)
		return
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

// madeThings are what create makes that has no image.
var madeThings = wordSet("network volume context buildx builder secret config pod swarm manifest plugin node namespace ns lease leases snapshot snapshots")

// runSwitches are the flags of run and create that have no value of their own.
var runSwitches = wordSet(`-d --detach -i --interactive -t --tty --rm --privileged --init --read-only -P --publish-all --no-healthcheck --oom-kill-disable
--disable-content-trust -q --quiet --replace --sig-proxy --no-hosts --rmi --use-api-socket --net-host --null-io --allow-new-privs`)

// runValues are their usual flags with a value.
var runValues = wordSet(`-v --volume --mount -p --publish -e --env --env-file --name --network --net --restart --entrypoint -w --workdir -u --user
-h --hostname --add-host --cap-add --cap-drop --security-opt --device --ulimit --log-driver --log-opt -l --label -m --memory --cpus --pid --ipc --platform --gpus --tmpfs`)

// runImage is the image of a command like docker run: the first word that is no
// flag and no value of one. i is the place of run or create. An unknown flag is
// taken to have a value; a word without tag and path is no image behind it.
func runImage(words []word, i int) (word, bool) {
	if words[i].text == "pull" || i > 0 && words[i-1].text == "image" {
		return word{}, false
	}
	sure := true
	for i++; i < len(words); i++ {
		w := words[i]
		switch {
		case !strings.HasPrefix(w.text, "-"):
			v := judge("image", w.text)
			_, err := ref.Parse(w.text)
			return w, !w.dynamic && err == nil && v.reason == "" && (sure || v.confidence.Mirrored())
		case w.text == "--rootfs" || w.dynamic && strings.HasPrefix(w.text, "$"):
			return word{}, false
		case runSwitches[w.text], strings.Contains(w.text, "="):
		case len(w.text) > 2 && w.text[1] != '-': // -itd, or -p80:80
		default:
			sure = sure && runValues[w.text]
			i++
		}
	}
	return word{}, false
}
