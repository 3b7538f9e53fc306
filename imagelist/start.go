package imagelist

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/strvals"
)

// A Command is one that starts a cluster or an application.
type Command struct {
	File string            // where it is written, as the user knows it: Kubefile
	Line int               // there; 0 when it was made, not written
	Text string            // for a shell
	Dir  string            // its working directory in the rootfs; "" is the root
	Env  map[string]string // the variables that it is given, unless a run gives others
}

// A release is one way in which a chart is installed.
type release struct {
	name, namespace string
	inChart         []string       // values files in the chart, in order, before the others
	files           []string       // values files in the rootfs, in order
	sets            []setting      // after the files
	given           map[string]any // before the files
	plain           bool           // no command is known: the overlays beside the chart are used
}

// A setting is a flag of helm that sets values.
type setting struct{ flag, text string }

// setFlags are in the order in which Helm takes them.
var setFlags = []string{"--set-json", "--set", "--set-string", "--set-file", "--set-literal"}

// valueFlags are the other flags of helm install, upgrade and template with a
// value of their own.
var valueFlags = wordSet(`-f --values -n --namespace --version --repo --ca-file --cert-file --key-file --keyring --username --password
--timeout --description -l --labels -o --output --post-renderer --post-renderer-args --name-template --kube-context --kubeconfig
--kube-apiserver --kube-as-group --kube-as-user --kube-ca-file --kube-tls-server-name --kube-token --registry-config
--repository-cache --repository-config --burst-limit --qps --history-max -a --api-versions --kube-version -s --show-only --output-dir
--set --set-string --set-file --set-json --set-literal`)

const (
	maxScript  = 1 << 20 // bytes of a script that a start command runs
	maxScripts = 3       // scripts that run scripts
)

var (
	startGap = cause{Open, "start-command", "", "write the chart, its values files and settings into the command as plain words, " + declare}
	startURL = cause{Open, "elsewhere", "a start command takes it from elsewhere; its images are not in these files", elsewhereGap.remedy}
)

const unknownChart = "the chart that the command installs is known only when it runs"

// A starter reads the start commands for the charts that they install.
type starter struct {
	s        *scanner
	rootfs   fs.FS
	releases map[string][]release // by the chart's path
	limit    Confidence           // of its findings; set for a script that no command is known to run
}

// starts reads the start commands and returns how they install the charts that
// are inside. A chart from elsewhere is a gap.
func (s *scanner) starts() map[string][]release {
	st := starter{s: s, rootfs: s.rootfs(), releases: map[string][]release{}}
	for _, c := range s.o.Commands {
		st.script(c, "", 0)
	}
	return st.releases
}

// script reads a command, or the script of that name that one runs.
func (st *starter) script(c Command, name string, depth int) {
	dirs := []string{path.Join(".", c.Dir), path.Dir(name), "."} // a script may change to its own first
	for _, cmd := range shellCommands(c.Text, c.Env) {
		at := c
		if name != "" {
			at.File, at.Line = name, cmd.line
		}
		words := unwrapped(cmd.words)
		cmd.words = words
		switch program := path.Base(words[0].text); {
		case program == "cd" && len(words) == 2 && !words[1].dynamic:
			dirs = append([]string{path.Join(dirs[0], words[1].text)}, dirs...)
		case program == "helm":
			st.helm(at, cmd, dirs)
		case program == "helmfile":
			st.s.addGap(startURL, Gap{Subject: at.subject(), File: at.File, Line: at.Line, Text: shorten(cmd.String())})
		case program == "kubectl":
			st.kubectl(at, cmd)
		case pullers[program]:
			st.pull(at, cmd)
		case program == "xargs" || program == "parallel":
			if slices.ContainsFunc(words, func(w word) bool { return path.Base(w.text) == "helm" }) {
				st.s.addGap(startGap, Gap{Subject: at.subject(), File: at.File, Line: at.Line, Text: shorten(cmd.String()), Reason: unknownChart})
			}
		case program == "eval" && depth < maxScripts:
			at.Text, at.Dir = shellCommand{words: words[1:]}.String(), dirs[0]
			st.inline(at, name, depth+1)
		case shells[program]:
			st.shell(at, words[1:], name, dirs, depth)
		case strings.Contains(words[0].text, "/") || strings.HasSuffix(words[0].text, ".sh"):
			st.run(at, words[0], dirs, depth)
		}
	}
}

// shells are the programs that run the script of their first argument, or the
// commands behind -c.
var shells = wordSet("sh bash dash ash zsh ksh source .")

// shell reads what a shell is told to run.
func (st *starter) shell(at Command, words []word, name string, dirs []string, depth int) {
	for i, w := range words {
		switch {
		case strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c") && i+1 < len(words):
			if depth < maxScripts {
				at.Text, at.Dir = words[i+1].text, dirs[0]
				st.inline(at, name, depth+1)
			}
			return
		case !strings.HasPrefix(w.text, "-") && w.text != "pipefail": // set -o's
			st.run(at, w, dirs, depth)
			return
		}
	}
}

// inline reads commands in the text of one, of the script name or of none: their
// line is that one's.
func (st *starter) inline(c Command, name string, depth int) {
	if name != "" {
		c.Text = strings.Repeat("\n", max(0, c.Line-1)) + c.Text
	}
	st.script(c, name, depth)
}

// unwrapped takes away the programs that run the rest of their words as a
// command: timeout 5m helm install …
func unwrapped(words []word) []word {
	for len(words) > 1 {
		switch path.Base(words[0].text) {
		case "timeout", "nice", "ionice", "chrt", "stdbuf", "setsid", "retry", "flock":
		default:
			return words
		}
		i := slices.IndexFunc(words, func(w word) bool { b := path.Base(w.text); return b == "helm" || b == "kubectl" || shells[b] })
		if i < 0 {
			return words
		}
		words = words[i:]
	}
	return words
}

// run reads a script of the rootfs, which a program that is none is not.
func (st *starter) run(c Command, w word, dirs []string, depth int) {
	name, ok := st.find(w.text, dirs)
	if !ok || depth >= maxScripts {
		return
	}
	data, err := readLimited(st.rootfs, name, maxScript)
	if err != nil || strings.IndexByte(string(data), 0) >= 0 {
		return
	}
	c.Text, c.Dir = string(data), dirs[0]
	st.script(c, name, depth+1)
}

// find returns the path of a file or directory of the rootfs: of a pattern the
// first that it matches.
func (st *starter) find(name string, dirs []string) (string, bool) {
	for _, dir := range dirs {
		at := path.Join(dir, strings.TrimPrefix(name, "/"))
		if !fs.ValidPath(at) {
			continue
		}
		if _, err := fs.Stat(st.rootfs, at); err == nil {
			return at, true
		}
		if matches, err := fs.Glob(st.rootfs, at); err == nil && len(matches) > 0 {
			return matches[0], true
		}
	}
	return "", false
}

func (c Command) subject() string {
	if c.Line > 0 {
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	return c.File
}

// String is the command on one line.
func (c shellCommand) String() string {
	var all []string
	for _, w := range c.words {
		all = append(all, w.text)
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// kubectl takes the images that a command names, and tells of objects from
// elsewhere.
func (st *starter) kubectl(at Command, cmd shellCommand) {
	var words []pair
	for i, w := range cmd.words {
		if strings.Contains(w.text, "://") && i > 0 && (cmd.words[i-1].text == "-f" || cmd.words[i-1].text == "-k") ||
			strings.HasPrefix(w.text, "--filename=http") || strings.HasPrefix(w.text, "-fhttp") {
			st.s.addGap(startURL, Gap{Subject: w.text, File: at.File, Line: at.Line, Text: shorten(cmd.String())})
		}
		if !w.dynamic {
			words = append(words, pair{value: w.text, line: at.Line})
		}
	}
	st.s.flags(place{file: at.File, object: "command", limit: st.limit}, slices.DeleteFunc(words, func(p pair) bool { return !strings.Contains(p.value, "image") }), "arg")
}

// helm reads helm install, upgrade and template.
func (st *starter) helm(at Command, cmd shellCommand, dirs []string) {
	args, flags, odd := helmArgs(cmd.words[1:])
	if len(args) > 3 && args[0].text == "repo" && args[1].text == "add" && !args[2].dynamic && !args[3].dynamic {
		st.s.noteHelmRepo(args[2].text, args[3].text)
	}
	if len(args) == 0 || !slices.Contains([]string{"install", "upgrade", "template"}, args[0].text) {
		return
	}
	args = args[1:]
	r := release{name: releaseName, namespace: releaseNamespace}
	if len(args) > 1 {
		r.name, odd = args[0].text, odd || args[0].dynamic
		args = args[1:]
	}
	if len(args) == 0 {
		return
	}
	chart := args[0]
	name, inside := st.find(chart.text, dirs)
	tell := func(c cause, subject, reason string) {
		st.s.addGap(c, Gap{Subject: subject, File: at.File, Line: at.Line, Text: shorten(cmd.String()), Reason: reason})
	}
	switch {
	case chart.dynamic:
		tell(startGap, at.subject(), unknownChart)
		return
	case !inside:
		if near := st.beside(chart.text, dirs); near != "" {
			tell(startGap, chart.text, near)
		} else {
			tell(startURL, chart.text, "")
		}
		return
	}
	for _, f := range flags {
		odd = odd || f.dynamic
		key, value, _ := strings.Cut(f.text, "=")
		switch key {
		case "-n", "--namespace":
			r.namespace = value
		case "-f", "--values":
			for _, value := range strings.Split(value, ",") { // as Helm's flag does
				file, ok := st.find(value, dirs)
				switch {
				case value == "-" || strings.HasPrefix(value, "<"):
					odd = true
				case !ok && !f.dynamic:
					tell(startGap, name, "the values file "+value+" is not in the rootfs")
				default:
					r.files = append(r.files, file)
				}
			}
		case "--post-renderer":
			odd = true
		default:
			if slices.Contains(setFlags, key) {
				r.sets = append(r.sets, setting{key, value})
			}
		}
	}
	if odd {
		tell(startGap, name, "the values that the command installs the chart with are known only when it runs")
		r = release{plain: true}
	}
	slices.SortStableFunc(r.sets, func(a, b setting) int { return slices.Index(setFlags, a.flag) - slices.Index(setFlags, b.flag) })
	st.releases[name] = append(st.releases[name], r)
}

// beside tells of a chart that is not there, though its directory is: which are.
func (st *starter) beside(chart string, dirs []string) string {
	dir := path.Dir(strings.TrimPrefix(chart, "/"))
	if dir == "." || strings.Contains(chart, "://") {
		return ""
	}
	at, ok := st.find(dir, dirs)
	if !ok {
		return ""
	}
	entries, err := fs.ReadDir(st.rootfs, at)
	if err != nil {
		return ""
	}
	var there []string
	for _, e := range entries {
		_, err := fs.Stat(st.rootfs, path.Join(at, e.Name(), "Chart.yaml"))
		if err == nil || strings.HasSuffix(e.Name(), ".tgz") {
			there = append(there, path.Join(dir, e.Name()))
		}
	}
	if len(there) == 0 {
		return ""
	}
	return "there is no chart " + chart + " in the rootfs; there are " + strings.Join(there, ", ")
}

// helmArgs divides the words of a command into arguments and the flags with
// values, as "--flag=value". odd says that a flag cannot be read.
func helmArgs(words []word) (args, flags []word, odd bool) {
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch {
		case !strings.HasPrefix(w.text, "-") || w.text == "-":
			if w.dynamic && strings.HasPrefix(w.text, "$") && len(args) > 2 {
				odd = true // more flags, perhaps
			}
			if strings.HasPrefix(w.text, ">") || strings.HasPrefix(w.text, "2>") || strings.HasPrefix(w.text, "<") {
				return args, flags, odd
			}
			args = append(args, w)
		case strings.Contains(w.text, "="):
			flags = append(flags, w)
		case valueFlags[w.text] && i+1 < len(words):
			i++
			flags = append(flags, word{w.text + "=" + words[i].text, w.dynamic || words[i].dynamic})
		case !strings.HasPrefix(w.text, "--") && len(w.text) > 2 && valueFlags[w.text[:2]]:
			flags = append(flags, word{w.text[:2] + "=" + w.text[2:], w.dynamic}) // -fvalues.yaml
		default:
			odd = odd || w.dynamic
		}
	}
	return args, slices.DeleteFunc(flags, func(w word) bool {
		key, _, _ := strings.Cut(w.text, "=")
		return w.dynamic && !slices.Contains(setFlags, key) && !slices.Contains([]string{"-f", "--values", "-n", "--namespace"}, key)
	}), odd
}

// apply puts the values of a start command over out.
func (r release) apply(rootfs fs.FS, out map[string]any) error {
	merged := chartutil.CoalesceTables(maps.Clone(r.given), out)
	for k, v := range merged {
		out[k] = v
	}
	for _, name := range r.files {
		data, err := readLimited(rootfs, name, maxFile)
		if err == nil {
			err = overlay(out, data)
		}
		if err != nil {
			return fmt.Errorf("values %s: %w", name, err)
		}
	}
	for _, set := range r.sets {
		if err := set.apply(rootfs, out); err != nil {
			return fmt.Errorf("%s %s: %w", set.flag, set.text, err)
		}
	}
	return nil
}

func (set setting) apply(rootfs fs.FS, out map[string]any) error {
	switch set.flag {
	case "--set-json":
		return strvals.ParseJSON(set.text, out)
	case "--set":
		return strvals.ParseInto(set.text, out)
	case "--set-string":
		return strvals.ParseIntoString(set.text, out)
	case "--set-literal":
		return strvals.ParseLiteralInto(set.text, out)
	}
	return strvals.ParseIntoFile(set.text, out, func(name []rune) (any, error) {
		data, err := readLimited(rootfs, path.Clean(strings.TrimPrefix(string(name), "/")), maxFile)
		return string(data), err
	})
}

// rootfs is where start commands find files.
func (s *scanner) rootfs() fs.FS {
	if s.o.Rootfs != nil {
		return s.o.Rootfs
	}
	return s.fsys
}
