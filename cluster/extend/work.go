package extend

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/spec"
)

// The built-in types of plugins. Their case does not count: sealer 0.8 wrote
// both TAINT and Taint.
const (
	TypeShell        = "SHELL"
	TypeHostname     = "HOSTNAME"
	TypeLabel        = "LABEL"
	TypeTaint        = "TAINT"
	TypeEtcd         = "ETCD"
	TypeClusterCheck = "CLUSTERCHECK"
	TypePreflight    = "PREFLIGHT"
)

// A Work is the work of one plugin at one phase on one machine. One of the
// pointers and maps is set.
type Work struct {
	Plugin string
	Phase  Phase
	Host   netip.Addr // invalid: the cluster as a whole

	Script    *Script         // a shell script on Host
	Hostname  string          // the name that Host gets
	Labels    *Labels         // of Host's node, by the API
	Etcd      *Etcd           // a snapshot of etcd on Host, a master
	Check     *Check          // wait until all nodes and system pods are ready
	Preflight *spec.Preflight // rules for the preflight of all machines
	Exec      *Exec           // a program of the rootfs
}

// A Script is text for sh -c.
type Script struct {
	Run      string
	InRootfs bool // its directory; there is none at Originally
	Kube     bool // the cluster runs: KUBECONFIG is set
}

// Labels are changes of a node's labels and taints.
type Labels struct {
	Set    map[string]string
	Remove []string // keys of labels
	Taints []spec.Taint
}

// Etcd is a snapshot.
type Etcd struct {
	Dir  string // "" is the engine's choice
	Name string // "" is the engine's choice
}

// A Check waits.
type Check struct {
	Timeout time.Duration // 0 is the engine's choice
}

// An Exec is a program that Runner runs.
type Exec struct {
	Program string // in the rootfs
	Plugin  spec.Plugin
}

// Plan returns the work of the plugins at the phases given, in order of the
// phases, then of the plugins, then of the nodes. cluster holds all nodes of
// the cluster; nodes are the ones that the verb changes. types names the
// program of each type that is not built in; see Programs. All faults are
// joined.
func Plan(plugins []spec.Plugin, cluster, nodes []spec.Node, types map[string]string, phases ...Phase) ([]Work, error) {
	t := &translator{cluster: cluster, nodes: nodes, types: types}
	byPhase := map[Phase][]Work{}
	for _, p := range plugins {
		for _, w := range t.plugin(p) {
			byPhase[w.Phase] = append(byPhase[w.Phase], w)
		}
	}
	if err := errors.Join(t.errs...); err != nil {
		return nil, err
	}
	var out []Work
	for _, m := range Moments() {
		if slices.Contains(phases, m.Phase) {
			out = append(out, byPhase[m.Phase]...)
		}
	}
	return out, nil
}

// Validate reports all faults of plugins for a cluster of these nodes.
func Validate(plugins []spec.Plugin, cluster []spec.Node, types map[string]string) error {
	_, err := Plan(plugins, cluster, cluster, types)
	return err
}

type translator struct {
	cluster, nodes []spec.Node
	types          map[string]string
	errs           []error
}

func (t *translator) fault(p spec.Plugin, format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf("plugin %s: %w", p.Name, fmt.Errorf(format, args...)))
}

// moments returns a plugin's phases, or the phases of its type when it names
// none.
func (t *translator) moments(p spec.Plugin, otherwise Phase) []Moment {
	names := p.Actions()
	if len(names) == 0 && otherwise != "" {
		names = []string{string(otherwise)}
	}
	if len(names) == 0 {
		t.fault(p, "action is missing: name the phases, as action: PreInit|PostInstall")
	}
	var out []Moment
	for _, n := range names {
		m, err := moment(n)
		if err != nil {
			t.fault(p, "action: %w", err)
			continue
		}
		out = append(out, m)
	}
	return out
}

func (t *translator) plugin(p spec.Plugin) []Work {
	switch strings.ToUpper(p.Type) {
	case TypeShell:
		return t.shell(p)
	case TypeHostname:
		return t.hostname(p)
	case TypeLabel, TypeTaint:
		return t.labels(p)
	case TypeEtcd:
		return t.etcd(p)
	case TypeClusterCheck:
		return t.check(p)
	case TypePreflight:
		return t.preflight(p)
	}
	return t.exec(p)
}

// Stands reports whether the cluster is there at a phase.
func (p Phase) Stands() bool {
	switch p {
	case Originally, PreInstall, PreInit, PostClean, PostUninstall:
		return false
	}
	return true
}

func (t *translator) shell(p spec.Plugin) (out []Work) {
	if strings.TrimSpace(p.Data) == "" {
		t.fault(p, "data is empty: write the script there")
	}
	for _, m := range t.moments(p, "") {
		for _, n := range t.hosts(p, m) {
			out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Host: n.Address, Script: &Script{
				Run: p.Data, InRootfs: m.Phase != Originally && m.Phase != PostClean && m.Phase != PostUninstall, Kube: m.Phase.Stands() && n.Master(),
			}})
		}
	}
	return out
}

// lines calls f with the words of each line of data that says something: the
// hosts in front, and the rest.
func (t *translator) lines(p spec.Plugin, f func(n spec.Node, rest string) error) {
	for i, line := range strings.Split(p.Data, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		list, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if rest == "" {
			t.fault(p, "data line %d: write ADDRESS, a space, and what it gets", i+1)
			continue
		}
		addresses, err := spec.ParseAddresses(list)
		if err != nil {
			t.fault(p, "data line %d: %w", i+1, err)
			continue
		}
		for _, a := range addresses {
			n, known := find(t.cluster, a.Addr())
			if !known {
				t.fault(p, "data line %d: %s is no host of the cluster", i+1, a.Addr())
				continue
			}
			if err := f(n, rest); err != nil {
				t.fault(p, "data line %d: %w", i+1, err)
				break
			}
		}
	}
}

func find(nodes []spec.Node, a netip.Addr) (spec.Node, bool) {
	i := slices.IndexFunc(nodes, func(n spec.Node) bool { return n.Address == a })
	if i < 0 {
		return spec.Node{}, false
	}
	return nodes[i], true
}

func (t *translator) wanted(n spec.Node) bool {
	_, ok := find(t.nodes, n.Address)
	return ok
}

func (t *translator) hostname(p spec.Plugin) (out []Work) {
	moments := t.moments(p, Originally)
	for _, m := range moments {
		if m.Phase != Originally && m.Phase != PreInit {
			t.fault(p, "action %s: a node cannot change its name later than %s", m.Phase, PreInit)
		}
	}
	names := map[string]bool{}
	t.lines(p, func(n spec.Node, name string) error {
		switch {
		case !hostNameOK(name):
			return fmt.Errorf("%q cannot be a host's name: use lower case letters, digits and -", name)
		case names[name]:
			return fmt.Errorf("the name %q stands twice", name)
		}
		names[name] = true
		for _, m := range moments {
			if t.wanted(n) {
				out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Host: n.Address, Hostname: name})
			}
		}
		return nil
	})
	return out
}

func hostNameOK(s string) bool {
	ok := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' }
	return s != "" && len(s) <= 63 && !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) }) && strings.Trim(s, "-.") == s && !strings.Contains(s, "..")
}

// labels translates LABEL and TAINT: lines of hosts and words separated by
// commas.
func (t *translator) labels(p spec.Plugin) (out []Work) {
	moments := t.moments(p, PreGuest)
	for _, m := range moments {
		if !m.Phase.Stands() {
			t.fault(p, "action %s: there are no nodes at that phase: use %s", m.Phase, PreGuest)
		}
	}
	byHost := map[netip.Addr]*Labels{}
	var order []spec.Node
	t.lines(p, func(n spec.Node, rest string) error {
		l := byHost[n.Address]
		if l == nil {
			l = &Labels{Set: map[string]string{}}
			byHost[n.Address] = l
			order = append(order, n)
		}
		for _, word := range strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
			if err := l.add(strings.EqualFold(p.Type, TypeTaint), word); err != nil {
				return err
			}
		}
		return nil
	})
	for _, m := range moments {
		for _, n := range order {
			if t.wanted(n) {
				out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Host: n.Address, Labels: byHost[n.Address]})
			}
		}
	}
	return out
}

func (l *Labels) add(taint bool, word string) error {
	if taint {
		parsed, err := spec.ParseTaint(word)
		l.Taints = append(l.Taints, parsed)
		return err
	}
	key, value, set := strings.Cut(word, "=")
	bare, remove := strings.CutSuffix(key, "-")
	if set {
		bare, remove = key, false
	}
	switch {
	case !spec.LabelOK(bare, value):
		return fmt.Errorf("%q cannot be a label: write key=value, or key- to remove it", word)
	case remove:
		l.Remove = append(l.Remove, bare)
	case set:
		l.Set[bare] = value
	default:
		return fmt.Errorf("%q is no label: write key=value, or key- to remove it", word)
	}
	return nil
}

func (t *translator) etcd(p spec.Plugin) (out []Work) {
	name := strings.TrimSpace(p.Data)
	dir := ""
	if strings.HasPrefix(p.On, "/") { // sealer 0.8 wrote the directory there
		dir, p.On = path.Clean(p.On), ""
	}
	if strings.ContainsAny(name, "/\n\x00") {
		t.fault(p, "data: %q cannot be the name of a snapshot: write a file's name there, the directory in on", name)
	}
	for _, m := range t.moments(p, PostInstall) {
		if !m.Phase.Stands() {
			t.fault(p, "action %s: there is no etcd at that phase", m.Phase)
		}
		for _, n := range t.hosts(p, Moment{Phase: m.Phase, Where: OnFirst}) {
			if !n.Master() {
				t.fault(p, "on: %s is no master and has no etcd", n.Address)
			}
			out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Host: n.Address, Etcd: &Etcd{Dir: dir, Name: name}})
		}
	}
	return out
}

func (t *translator) check(p spec.Plugin) (out []Work) {
	var timeout time.Duration
	if s := strings.TrimSpace(p.Data); s != "" {
		var err error
		if timeout, err = time.ParseDuration(s); err != nil || timeout <= 0 {
			t.fault(p, "data: %q is no time to wait: write for example 5m", s)
		}
	}
	for _, m := range t.moments(p, PreGuest) {
		if !m.Phase.Stands() {
			t.fault(p, "action %s: there is no cluster at that phase", m.Phase)
		}
		out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Check: &Check{Timeout: timeout}})
	}
	return out
}

func (t *translator) preflight(p spec.Plugin) []Work {
	text := "apiVersion: " + spec.APIVersion + "\nkind: Preflight\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(p.Data), "\n", "\n  ") + "\n"
	f, err := spec.Parse("data", []byte(text))
	if err != nil {
		t.fault(p, "data: %w", err)
		return nil
	}
	return []Work{{Plugin: p.Name, Phase: Originally, Preflight: f.Preflight}}
}

func (t *translator) exec(p spec.Plugin) (out []Work) {
	program, ok := t.types[p.Type]
	if !ok {
		builtin := []string{TypeShell, TypeHostname, TypeLabel, TypeTaint, TypeEtcd, TypeClusterCheck, TypePreflight}
		t.fault(p, "unknown type %q: built in are %s; a program for another one lies in plugins/ of the image", p.Type, strings.Join(builtin, ", "))
		return nil
	}
	for _, m := range t.moments(p, "") {
		if m.Phase == Originally || m.Phase == PostClean || m.Phase == PostUninstall {
			t.fault(p, "action %s: a program lies in the rootfs, which is not there at that phase", m.Phase)
		}
		where := m
		if p.On == "" && p.Scope == "" {
			where.Where = OnFirst // once, as ever
		}
		for _, n := range t.hosts(p, where) {
			out = append(out, Work{Plugin: p.Name, Phase: m.Phase, Host: n.Address, Exec: &Exec{Program: program, Plugin: p}})
		}
	}
	return out
}
