package imagelist

import (
	"bytes"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// isScriptName reports whether a word can only be the name of a script or program.
func isScriptName(s string) bool {
	return strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || path.Ext(s) == ".sh" || path.Ext(s) == ".bash"
}

// run reads a script of the rootfs, or tells why it cannot. sure says that the word
// stands where only a script may.
func (st *starter) run(in commandPlace, w word, sure bool) {
	names := st.scripts(in, w)
	if len(names) == 0 {
		st.missing(in, w, sure)
	}
	for _, name := range names {
		st.runFile(in, name)
	}
}

// scripts are the files that a word may name: several where a variable is part of
// the name.
func (st *starter) scripts(in commandPlace, w word) []string {
	if !w.dynamic {
		if name, ok := st.find(w.text, in.dirs); ok {
			return []string{name}
		}
		return nil
	}
	pattern := expansion.ReplaceAllString(w.text, "*")
	if rest, ok := strings.CutPrefix(pattern, "*/"); ok {
		pattern = rest // most often the directory of the script or of the rootfs
	}
	if strings.Trim(pattern, "*/.") == "" || strings.ContainsAny(pattern, "$`?[") {
		return nil
	}
	for _, dir := range in.dirs {
		matches, err := fs.Glob(st.rootfs, path.Join(dir, pattern))
		if err == nil && len(matches) > 0 && len(matches) <= maxPatterns {
			return matches
		}
	}
	return nil
}

// expansion is a variable or a command whose output the shell puts there.
var expansion = regexp.MustCompile("\\$\\{[^}]*\\}|\\$\\((?:[^()]|\\([^()]*\\))*\\)|\\$\\w+|`[^`]*`")

func (st *starter) runFile(in commandPlace, name string) {
	if slices.Contains(st.stack, name) {
		return // it runs itself
	}
	if in.depth >= maxScripts {
		st.tell(unreadScript, in, name, "", "a script of a script of a script: not looked at")
		return
	}
	data, err := readLimited(st.rootfs, name, maxScript)
	if err != nil {
		st.tell(in.grade(unreadScript), in, name, "", "a start command runs "+name+", which cannot be read: "+firstLine(err))
		return
	}
	if reason := unreadable(data); reason != "" {
		if !toolNames[path.Base(name)] {
			st.tell(opaqueScript, in, name, "", "a start command runs "+name+", "+reason+": the images that it starts are not known")
		}
		return
	}
	c := in.at
	c.Text, c.Dir = string(data), in.dirs[0]
	st.stack = append(st.stack, name)
	st.script(c, name, in.depth+1)
	st.stack = st.stack[:len(st.stack)-1]
}

// toolNames are programs of Kubernetes that start no container by themselves, or
// whose images are found in other ways.
var toolNames = wordSet("kubeadm kubelet kubectl helm crictl ctr nerdctl containerd dockerd docker runc etcdctl etcdutl jq yq cfssl cfssljson conntrack seautil")

// unreadable tells why the text of a script cannot be read, "" when it can.
func unreadable(data []byte) string {
	if bytes.IndexByte(data, 0) >= 0 {
		return "a program that is compiled"
	}
	first, _, _ := bytes.Cut(data, []byte("\n"))
	words := strings.Fields(strings.TrimPrefix(string(first), "#!"))
	if !bytes.HasPrefix(first, []byte("#!")) || len(words) == 0 {
		return ""
	}
	program := path.Base(words[0])
	if program == "env" {
		for _, w := range words[1:] {
			if program = path.Base(w); !strings.HasPrefix(w, "-") && !strings.Contains(w, "=") {
				break
			}
		}
	}
	if shells[program] || program == "busybox" {
		return ""
	}
	return "written for " + program
}

// missing tells of a script that a command runs and that is not there. A program
// or file of the machine, by its whole path, is none. Of a command in a script that
// is not sure to be one the name must be a script's.
func (st *starter) missing(in commandPlace, w word, sure bool) {
	sure = sure || in.script == "" || isScriptName(w.text)
	c := in.grade(missingScript)
	switch {
	case !sure, machineFile.MatchString(w.text):
	case w.dynamic:
		c.grade = Doubtful
		st.tell(c, in, in.where(), "", unknownScript)
	case strings.HasPrefix(w.text, "/") || strings.HasPrefix(w.text, "~"):
		c.grade = Doubtful // the machine may have it
		fallthrough
	default:
		st.tell(c, in, w.text, "", "a start command runs "+w.text+", which is not in the rootfs: the images that it starts are not known")
	}
}

// machineFile matches the programs and settings of a machine.
var machineFile = regexp.MustCompile(`^/(?:(?:usr/)?(?:local/)?s?bin/[^/.]+$|(?:etc|dev|proc|sys|usr|lib)/)`)

// where is the script, or the line of the Kubefile.
func (in commandPlace) where() string {
	if in.script != "" {
		return in.script
	}
	return in.at.subject()
}
