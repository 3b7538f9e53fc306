package imagelist

import (
	"path"
	"slices"
	"strings"
)

// kubectlFlags are the flags of kubectl that have a value of their own, of the
// commands that make objects.
var kubectlFlags = wordSet(`-n --namespace -f --filename -k --kustomize -l --selector -o --output --context --kubeconfig --cluster --user -s --server
--token --timeout --field-manager --as --as-group --image --replicas --port --env --labels --overrides --template --type -p --patch -c --container
--from --target --profile --schedule --limits --requests --serviceaccount --image-pull-policy --cache-dir --certificate-authority
--client-certificate --client-key --request-timeout --tls-server-name --prune-allowlist --prune-whitelist`)

var objectsGap = cause{Open, "start-command", "", "bring the objects as a file, or add their images to manifests/imageList, " + declare}

const (
	pipedObjects   = "the objects that it makes are known only when it runs"
	unknownObjects = "which objects it makes is known only when it runs"
)

// A kubectlCall is a command of kubectl.
type kubectlCall struct {
	args         []word // the command's name first
	files, kusts []word // the values of -f and -k
	images       []word // the values of --image
}

// parseKubectl reads the words behind the program's name.
func parseKubectl(words []word) (c kubectlCall) {
	add := func(flag, value string, dynamic bool) {
		switch flag {
		case "-f", "--filename":
			for v := range strings.SplitSeq(value, ",") {
				c.files = append(c.files, word{text: v, dynamic: dynamic})
			}
		case "-k", "--kustomize":
			c.kusts = append(c.kusts, word{text: value, dynamic: dynamic})
		case "--image":
			c.images = append(c.images, word{text: value, dynamic: dynamic})
		}
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		name, value, given := strings.Cut(w.text, "=")
		switch {
		case w.text == "--":
			return c // the command in the container
		case isRedirection(w.text) || strings.HasPrefix(w.text, "<"):
			if strings.Trim(w.text, "0123456789&<>") == "" {
				i++
			}
		case !strings.HasPrefix(w.text, "-") || w.text == "-":
			c.args = append(c.args, w)
		case given:
			add("-"+strings.TrimLeft(last(name), "-"), value, w.dynamic)
			add(name, value, w.dynamic)
		case strings.HasPrefix(w.text, "--"):
			if kubectlFlags[w.text] && i+1 < len(words) {
				i++
				add(w.text, words[i].text, words[i].dynamic)
			}
		default:
			i += shortFlags(w, words[i+1:], add)
		}
	}
	return c
}

// last is "" for a long flag, else "-" and the last letter: -Rf.
func last(flag string) string {
	if strings.HasPrefix(flag, "--") || len(flag) <= 2 {
		return ""
	}
	return "-" + flag[len(flag)-1:]
}

// shortFlags reads -Rf FILE and -fFILE. It returns how many of the words that
// follow are values.
func shortFlags(w word, next []word, add func(flag, value string, dynamic bool)) int {
	for j := 1; j < len(w.text); j++ {
		flag := "-" + w.text[j:j+1]
		switch {
		case !kubectlFlags[flag]:
		case j+1 < len(w.text):
			add(flag, w.text[j+1:], w.dynamic)
			return 0
		case len(next) > 0:
			add(flag, next[0].text, next[0].dynamic)
			return 1
		}
	}
	return 0
}

// kubectl takes the images and the objects that a command names, and tells of
// those from elsewhere.
func (st *starter) kubectl(in commandPlace, cmd shellCommand) {
	c := parseKubectl(cmd.words[1:])
	verb := ""
	if len(c.args) > 0 {
		verb = c.args[0].text
	}
	switch verb {
	case "kustomize":
		st.kustomize(in, cmd, append([]word{{text: "build"}}, c.args[1:]...))
	case "apply", "create", "replace":
		for _, w := range c.files {
			st.objects(in, cmd, w)
		}
		for _, w := range c.kusts {
			st.kustomization(in, cmd, w)
		}
		st.images(in, cmd, c.images)
	case "run", "debug":
		st.images(in, cmd, c.images)
	case "set":
		for _, w := range c.args {
			if _, image, ok := strings.Cut(w.text, "="); ok && c.args[1].text == "image" {
				st.images(in, cmd, []word{{text: image, dynamic: w.dynamic}})
			}
		}
	}
	var words []pair
	for _, w := range cmd.words {
		if name, _, _ := strings.Cut(w.text, "="); !w.dynamic && strings.Contains(w.text, "image") && name != "--image" {
			words = append(words, pair{value: w.text, line: in.at.Line})
		}
	}
	st.s.flags(place{file: in.at.File, object: "command", limit: st.limit}, words, "arg")
}

// images takes images of containers that a command starts.
func (st *starter) images(in commandPlace, cmd shellCommand, words []word) {
	for _, w := range words {
		if w.dynamic {
			st.tell(in.grade(pullGap), in, in.at.subject(), cmd.String(), "it starts an image that is known only when it runs")
			continue
		}
		p, at := place{file: in.at.File, object: "command", limit: st.limit}, spot{line: in.at.Line, written: w.text, rule: "arg"}
		if got := judge("image", w.text); got.confidence == "" && strings.HasSuffix(got.ref.Registry, ".invalid") {
			st.s.reject(p, at, got.reason)
			continue
		}
		st.s.add(p, at, High)
	}
}

// objects looks at the sources of objects for kubectl: a file, a directory, a URL, or
// its input.
func (st *starter) objects(in commandPlace, cmd shellCommand, w word) {
	switch {
	case w.text == "-" || w.text == "/dev/stdin" || strings.HasPrefix(w.text, "<("):
		st.objectsIn(in, cmd)
	case strings.Contains(w.text, "://"):
		st.tell(startURL, in, w.text, cmd.String(), "")
	default:
		names := st.scripts(in, w)
		for _, name := range names {
			st.apply(name)
		}
		if len(names) == 0 {
			st.noObjects(in, cmd, w)
		}
	}
}

// noObjects tells of objects that are not there.
func (st *starter) noObjects(in commandPlace, cmd shellCommand, w word) {
	c := in.grade(objectsGap)
	switch {
	case w.dynamic:
		c.grade = Doubtful
		st.tell(c, in, in.where(), cmd.String(), unknownObjects)
	case strings.HasPrefix(w.text, "/") || strings.HasPrefix(w.text, "~"):
		c.grade = Doubtful // the machine may have it
		fallthrough
	default:
		st.tell(c, in, w.text, cmd.String(), w.text+" is not in the rootfs")
	}
}

// apply has a file or directory that a command applies read as manifests are,
// wherever it lies.
func (st *starter) apply(name string) {
	s := st.s
	if name == "." || s.areaOf(name) != other || st.limit != "" {
		return
	}
	if s.applied == nil {
		s.applied = map[string]bool{}
	}
	s.applied[name] = true
	if s.dirs != nil {
		for dir := name; dir != "." && !s.dirs[dir]; dir = path.Dir(dir) {
			s.dirs[dir] = true
		}
	}
}

// objectsIn looks at the objects on the input of a command.
func (st *starter) objectsIn(in commandPlace, cmd shellCommand) {
	if cmd.here != nil {
		st.text(in, cmd, *cmd.here)
		return
	}
	for at := cmd; at.piped && len(at.before) > 0; {
		before := at.before
		at = before[len(before)-1]
		at.words, at.before = unwrapped(at.words), before[:len(before)-1]
		program := path.Base(at.words[0].text)
		switch {
		case program == "helm" || program == "kustomize" || program == "kubectl" || program == "oc":
			return // it was looked at itself
		case at.here != nil:
			st.text(in, cmd, *at.here)
			return
		case program == "echo" || program == "printf":
			text := shellCommand{words: at.words[1:]}
			st.text(in, cmd, hereText{text: strings.ReplaceAll(text.joined(), `\n`, "\n"), line: at.line, dynamic: slices.ContainsFunc(at.words, func(w word) bool { return w.dynamic })})
			return
		case program == "curl" || program == "wget":
			if i := slices.IndexFunc(at.words, func(w word) bool { return strings.Contains(w.text, "://") }); i > 0 {
				st.tell(startURL, in, at.words[i].text, cmd.String(), "")
				return
			}
		}
	}
	files := st.piped(in, cmd)
	for i, w := range cmd.words {
		if name, ok := st.find(strings.TrimPrefix(w.text, "<"), in.dirs); ok && i > 0 && (cmd.words[i-1].text == "<" || strings.HasPrefix(w.text, "<")) {
			files = append(files, name)
		}
	}
	for _, name := range files {
		st.apply(name)
	}
	if len(files) == 0 {
		st.tell(in.grade(objectsGap), in, in.where(), cmd.String(), pipedObjects)
	}
}

// text looks at objects that stand in a command or script.
func (st *starter) text(in commandPlace, cmd shellCommand, h hereText) {
	docs, faults := documents([]byte(h.text))
	for _, d := range docs {
		d.line += max(0, h.line-1)
		if in.script == "" {
			d.line = max(0, in.at.Line-d.node.Line)
		}
		limit := High
		if st.limit != "" {
			limit = st.limit
		}
		st.s.document(place{file: in.at.File, limit: limit}, d)
	}
	if len(faults) > 0 || len(docs) == 0 {
		st.tell(in.grade(objectsGap), in, in.where(), cmd.String(), pipedObjects)
	}
}

// kustomize reads kustomize build, and kubectl kustomize.
func (st *starter) kustomize(in commandPlace, cmd shellCommand, words []word) {
	words = parseKubectl(words).args
	if len(words) == 0 || words[0].text != "build" {
		return
	}
	if words = words[1:]; len(words) == 0 {
		words = []word{{text: "."}}
	}
	st.kustomization(in, cmd, words[0])
}

// kustomization looks for the directory of a kustomization, which is built wherever
// it lies.
func (st *starter) kustomization(in commandPlace, cmd shellCommand, w word) {
	if len(st.scripts(in, w)) > 0 {
		return
	}
	if !w.dynamic && isRemote(w.text) {
		st.tell(startURL, in, w.text, cmd.String(), "")
		return
	}
	st.noObjects(in, cmd, w)
}
