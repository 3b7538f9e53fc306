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
	read            []string       // values files of which given was made
	kubeVersion     string         // that it asks for; "" is the cluster's
	apis            []string       // API versions that it says are there
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

var (
	startGap = cause{Open, "start-command", "", "write the chart, its values files and settings into the command as plain words, " + declare}
	startURL = cause{Open, "elsewhere", "a start command takes it from elsewhere; its images are not in these files", elsewhereGap.remedy}
)

const unknownChart = "the chart that the command installs is known only when it runs"

func (c Command) subject() string {
	if c.Line > 0 {
		return fmt.Sprintf("%s:%d", c.File, c.Line)
	}
	return c.File
}

// String is the command on one line.
func (c shellCommand) String() string {
	return strings.Join(strings.Fields(c.joined()), " ")
}

// joined is the words of the command, their own white space kept.
func (c shellCommand) joined() string {
	var all []string
	for _, w := range c.words {
		all = append(all, w.text)
	}
	return strings.Join(all, " ")
}

// helm reads helm install, upgrade and template.
func (st *starter) helm(in commandPlace, cmd shellCommand) {
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
	name := st.chart(in, cmd, args[0])
	if name == "" {
		return
	}
	if odd = st.helmFlags(&r, in, cmd, name, flags) || odd; odd {
		st.tell(startGap, in, name, cmd.String(), "the values that the command installs the chart with are known only when it runs")
		r = release{plain: true}
	}
	slices.SortStableFunc(r.sets, func(a, b setting) int { return slices.Index(setFlags, a.flag) - slices.Index(setFlags, b.flag) })
	st.releases[name] = append(st.releases[name], r)
}

// chart returns the path of the chart that a command installs. Of one that is
// not in the rootfs it tells, and returns "".
func (st *starter) chart(in commandPlace, cmd shellCommand, chart word) string {
	name, inside := st.find(chart.text, in.dirs)
	switch {
	case chart.dynamic:
		st.tell(startGap, in, in.at.subject(), cmd.String(), unknownChart)
		return ""
	case inside:
		return name
	}
	if near := st.beside(chart.text, in.dirs); near != "" {
		st.tell(startGap, in, chart.text, cmd.String(), near)
	} else {
		st.tell(startURL, in, chart.text, cmd.String(), "")
	}
	return ""
}

// helmFlags puts into r the flags with which a command installs the chart of
// that name. odd says that one cannot be read.
func (st *starter) helmFlags(r *release, in commandPlace, cmd shellCommand, name string, flags []word) (odd bool) {
	for _, f := range flags {
		odd = odd || f.dynamic
		key, value, _ := strings.Cut(f.text, "=")
		switch key {
		case "-n", "--namespace":
			r.namespace = value
		case "-f", "--values":
			for _, value := range strings.Split(value, ",") { // as Helm's flag does
				file, ok := st.find(value, in.dirs)
				switch {
				case value == "-" || strings.HasPrefix(value, "<"):
					odd = true
				case !ok && !f.dynamic:
					st.tell(startGap, in, name, cmd.String(), "the values file "+value+" is not in the rootfs")
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
	return odd
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
			flags = append(flags, word{text: w.text + "=" + words[i].text, dynamic: w.dynamic || words[i].dynamic})
		case !strings.HasPrefix(w.text, "--") && len(w.text) > 2 && valueFlags[w.text[:2]]:
			flags = append(flags, word{text: w.text[:2] + "=" + w.text[2:], dynamic: w.dynamic}) // -fvalues.yaml
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
