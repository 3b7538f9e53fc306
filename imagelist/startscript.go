package imagelist

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	maxScript   = 1 << 20  // bytes of a script that a start command runs
	maxScripts  = 16       // scripts that run scripts
	maxCommands = 32 << 20 // bytes of all scripts together, each counted as often as it is run
	maxPatterns = 32       // scripts that one word with a variable may stand for
)

var (
	missingScript = cause{Open, "start-command", "", "bring the script, or correct the path, " + declare}
	unreadScript  = cause{Open, "start-command", "", "make it readable, or add the images that it starts to manifests/imageList, " + declare}
	opaqueScript  = cause{Doubtful, "start-command", "", "add the images that it starts to manifests/imageList, " + declare}
)

const (
	pipedScript   = "the commands that the shell runs are known only when it runs"
	unknownScript = "which script it runs is known only when it runs"
)

// A starter reads the start commands for the charts that they install.
type starter struct {
	s        *scanner
	rootfs   fs.FS
	releases map[string][]release // by the chart's path
	limit    Confidence           // of its findings; set for a script that no command is known to run
	stack    []string             // the scripts that are being read, each run by the one before
	bytes    int                  // of the scripts that were read
}

// commandPlace is where a command stands.
type commandPlace struct {
	at     Command
	script string // that it stands in; "" when the Kubefile has it
	dirs   []string
	depth  int
	lists  map[string]bool // the variables of loops over images that are known
}

// grade returns a cause as it counts there: a script may make, fetch or test for
// what it runs, so that only a doubt is left.
func (in commandPlace) grade(c cause) cause {
	if in.script != "" {
		c.grade = Doubtful
	}
	return c
}

func (st *starter) tell(c cause, in commandPlace, subject, text, reason string) {
	if st.limit != "" {
		c.grade = Doubtful // no command is known to run it
	}
	st.s.addGap(c, Gap{Subject: subject, File: in.at.File, Line: in.at.Line, Text: shorten(text), Reason: reason})
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
	in := commandPlace{at: c, script: name, dirs: []string{path.Join(".", c.Dir), path.Dir(name), "."}, depth: depth} // a script may change to its own first
	if st.bytes += len(c.Text); st.bytes > maxCommands {
		st.tell(unreadScript, in, name, "", "the scripts that it runs are too many to be read")
		return
	}
	sh := st.s.readScript(st.rootfs, name, c.Text, c.Env)
	commands := sh.out
	if name != "" {
		p := place{file: name, object: "command", limit: st.limit}
		in.lists = st.s.imageLists(p, sh)
		defer st.s.variableReferences(p, sh, in.lists)
	}
	for i, cmd := range commands {
		if name != "" {
			in.at.File, in.at.Line = name, cmd.line
		}
		cmd.words = unwrapped(cmd.words)
		cmd.before = commands[:i]
		st.command(&in, cmd)
	}
}

// command reads one command.
func (st *starter) command(in *commandPlace, cmd shellCommand) {
	words := cmd.words
	st.s.nodeFlags(place{file: in.at.File, object: "command", limit: st.limit}, cmd.String(), max(0, in.at.Line-1))
	switch program := path.Base(words[0].text); {
	case program == "cd" && len(words) == 2 && !words[1].dynamic:
		in.dirs = append([]string{path.Join(in.dirs[0], words[1].text)}, in.dirs...)
	case program == "helm":
		st.helm(*in, cmd)
	case program == "helmfile":
		st.tell(startURL, *in, in.at.subject(), cmd.String(), "")
	case program == "kubectl" || program == "oc":
		st.kubectl(*in, cmd)
	case program == "kustomize":
		st.kustomize(*in, cmd, words[1:])
	case program == "kubeadm":
		st.kubeadm(*in, cmd)
	case pullers[program]:
		if !goesThrough(cmd, in.lists) {
			st.pull(in.at, cmd)
		}
	case program == "xargs" || program == "parallel":
		if slices.ContainsFunc(words, func(w word) bool { return path.Base(w.text) == "helm" }) {
			st.tell(startGap, *in, in.at.subject(), cmd.String(), unknownChart)
		}
	case program == "eval" && in.depth < maxScripts:
		st.inline(*in, shellCommand{words: words[1:]}.String())
	case shells[program]:
		st.shell(*in, cmd)
	case interpreters[strings.TrimRight(program, "0123456789.")]:
		st.interpreter(*in, words)
	case strings.Contains(words[0].text, "/") || path.Ext(words[0].text) == ".sh":
		st.run(*in, words[0], false)
	}
}

// shells are the programs that run the script of their first argument, or the
// commands behind -c.
var shells = wordSet("sh bash dash ash zsh ksh source .")

// interpreters run scripts in languages that are not read.
var interpreters = wordSet("python perl ruby node php lua pwsh ansible-playbook make")

// shell reads the command that a shell is told to run.
func (st *starter) shell(in commandPlace, cmd shellCommand) {
	words := cmd.words[1:]
	for i := 0; i < len(words); i++ {
		w := words[i]
		flag := strings.HasPrefix(w.text, "-") || strings.HasPrefix(w.text, "+")
		switch {
		case flag && !strings.HasPrefix(w.text, "--") && strings.HasSuffix(w.text, "c") && i+1 < len(words):
			if in.depth < maxScripts {
				st.inline(in, words[i+1].text)
			}
			return
		case w.text == "-o" || w.text == "+o" || w.text == "-O" || w.text == "--rcfile" || w.text == "--init-file":
			i++ // with a value of its own
		case strings.HasPrefix(w.text, "<<"):
		case strings.HasPrefix(w.text, "<"):
			if w.text = strings.TrimPrefix(w.text, "<"); w.text == "" && i+1 < len(words) {
				w = words[i+1]
			}
			st.run(in, w, true)
			return
		case !flag && !isRedirection(w.text):
			st.run(in, w, true)
			return
		}
	}
	st.input(in, cmd)
}

func isRedirection(s string) bool { return strings.HasPrefix(strings.TrimLeft(s, "0123456789&"), ">") }

// input reads the commands that a shell takes from its input.
func (st *starter) input(in commandPlace, cmd shellCommand) {
	switch {
	case cmd.here != nil && !cmd.here.dynamic:
		st.inline(in, cmd.here.text)
	case cmd.here != nil || cmd.piped:
		if files := st.piped(in, cmd); len(files) > 0 {
			for _, name := range files {
				st.run(in, word{text: name}, true)
			}
			return
		}
		st.tell(in.grade(missingScript), in, in.at.subject(), cmd.String(), pipedScript)
	}
}

// piped returns the files that the command before writes to the input of cmd,
// through filters or none.
func (st *starter) piped(in commandPlace, cmd shellCommand) (files []string) {
	for before := cmd.before; cmd.piped && len(before) > 0; {
		cmd, before = before[len(before)-1], before[:len(before)-1]
		if !filters[path.Base(cmd.words[0].text)] {
			return nil
		}
		for _, w := range cmd.words[1:] {
			if name, ok := st.find(strings.TrimPrefix(w.text, "<"), in.dirs); ok && !w.dynamic && name != "." {
				files = append(files, name)
			}
		}
	}
	return files
}

// filters are programs that write the content of the files that they read.
var filters = wordSet("cat sed envsubst awk tr head tail grep tee yq jq cut sort uniq")

// interpreter tells of a script in a language that is not read.
func (st *starter) interpreter(in commandPlace, words []word) {
	program := path.Base(words[0].text)
	if program == "make" {
		st.tell(opaqueScript, in, in.at.subject(), shellCommand{words: words}.String(), "make runs what its Makefile says, which is not read")
		return
	}
	for _, w := range words[1:] {
		switch {
		case w.text == "-c" || w.text == "-e" || w.text == "-m" || w.text == "--version" || w.text == "-V":
			return
		case strings.HasPrefix(w.text, "-"):
		default:
			if name, ok := st.find(w.text, in.dirs); ok {
				st.tell(opaqueScript, in, name, "", "a start command runs it with "+program+", which is not read: the images that it starts are not known")
				return
			}
			st.missing(in, w, true)
			return
		}
	}
}

// inline reads commands in the text of one: their line is that one's.
func (st *starter) inline(in commandPlace, text string) {
	c := in.at
	c.Text, c.Dir = text, in.dirs[0]
	if in.script != "" {
		c.Text = strings.Repeat("\n", max(0, c.Line-1)) + c.Text
	}
	st.script(c, in.script, in.depth+1)
}

var wrappers = wordSet("timeout nice ionice chrt stdbuf setsid retry flock sudo env exec")

// find returns the path of a file or directory of the rootfs: of a pattern the
// first that it matches.
func (st *starter) find(name string, dirs []string) (string, bool) {
	for _, dir := range dirs {
		at := path.Join(dir, strings.TrimPrefix(name, "/"))
		if name == "" || !fs.ValidPath(at) {
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
