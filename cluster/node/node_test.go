package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/journal"
	"github.com/clusterimage/sealer/cluster/node"
	"github.com/clusterimage/sealer/cluster/plan"
)

// units are services that are not there.
type units struct {
	running map[string]bool
	said    []string
}

func (u *units) say(verb, unit string) { u.said = append(u.said, verb+" "+unit) }

func (u *units) Install(context.Context, string) error { return nil }

func (u *units) Start(_ context.Context, unit string, _ bool) error {
	u.say("start", unit)
	u.running[unit] = true
	return nil
}

func (u *units) Stop(_ context.Context, unit string) error {
	u.say("stop", unit)
	delete(u.running, unit)
	return nil
}

func (u *units) State(_ context.Context, unit string) (node.UnitState, error) {
	return node.UnitState{Active: u.running[unit], Enabled: u.running[unit]}, nil
}

func (u *units) Tail(context.Context, string, int) (string, error) { return "", nil }

// newMachine is a machine in a directory.
func newMachine(t *testing.T, files map[string]string) (*node.Machine, *units) {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	// Outside of root: the tree of the machine is compared as a whole.
	j, err := journal.Open(filepath.Join(t.TempDir(), "c1"), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	u := &units{running: map[string]bool{}}
	return &node.Machine{Root: root, Cluster: "c1", Journal: j, Units: u}, u
}

// tree is all that a directory holds: modes, links and contents.
func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		text := info.Mode().String()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		case info.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(b)
		}
		out[rel] = text
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func step(t *testing.T, kind string, args any) plan.Step {
	t.Helper()
	s, err := plan.NewStep(kind, "10.0.0.1", args, plan.Adds, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func do(t *testing.T, m *node.Machine, s plan.Step, secrets map[string]string) node.Result {
	t.Helper()
	r, err := m.Run(t.Context(), node.Order{Step: s, Secrets: secrets})
	if err != nil {
		t.Fatalf("%s: %v", s.Kind, err)
	}
	return r
}

func undo(t *testing.T, m *node.Machine) []string {
	t.Helper()
	var said []string
	if err := m.Undo(t.Context(), func(s string) { said = append(said, s) }); err != nil {
		t.Fatal(err)
	}
	return said
}

// fresh is a machine with something of everything that steps change.
func fresh() map[string]string {
	return map[string]string{
		"etc/hosts":                                   "127.0.0.1 localhost\n10.0.0.1 sea.hub.old",
		"etc/containerd/config.toml":                  "before\n",
		"proc/sys/net/ipv4/ip_forward":                "0\n",
		"proc/sys/net/bridge/bridge-nf-call-iptables": "1\n",
		"etc/hostname":                                "old\n",
	}
}

func steps(t *testing.T) []plan.Step {
	return []plan.Step{
		step(t, "block", plan.BlockArgs{File: "/etc/hosts", Mark: "c1 names", Lines: []string{"10.0.0.1 sea.hub"}}),
		step(t, "sysctl", plan.SysctlArgs{Values: map[string]string{"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"}}),
		step(t, "hostname", plan.HostnameArgs{Name: "n1"}),
		step(t, "files", plan.FilesArgs{Files: []plan.FileArg{
			{To: "/etc/containerd/config.toml", Content: "ours\n", Mode: 0o600, Replace: true},
			{To: "/etc/containerd/certs.d/docker.io/hosts.toml", Content: "x", Mode: 0o644},
			{To: "/etc/key", Secret: "key", Mode: 0o600},
		}}),
		step(t, "unit", plan.UnitArgs{Name: "kubelet.service", Content: "[Service]\nExecStart=/bin/true\n", Idle: true}),
	}
}

var secrets = map[string]string{"key": "hidden"}

func TestEveryStepIsDoneOnceAndUndone(t *testing.T) {
	t.Parallel()
	m, u := newMachine(t, fresh())
	before := tree(t, m.Root)
	for _, s := range steps(t) {
		if r := do(t, m, s, secrets); r.Skipped {
			t.Errorf("%s: skipped at first", s.Kind)
		}
		if r := do(t, m, s, secrets); !r.Skipped {
			t.Errorf("%s: done twice", s.Kind)
		}
		if ok, err := m.Check(t.Context(), s); err != nil || !ok {
			t.Errorf("%s: check without secrets: %t, %v", s.Kind, ok, err)
		}
	}
	after := tree(t, m.Root)
	if got := after["etc/hosts"]; !strings.HasSuffix(got, "10.0.0.1 sea.hub.old\n# sealer c1 names begin\n10.0.0.1 sea.hub\n# sealer c1 names end\n") {
		t.Errorf("hosts: %q", got)
	}
	if !u.running["kubelet.service"] {
		t.Error("the service does not run")
	}
	b, err := json.Marshal(m.Journal.Records())
	if err != nil || strings.Contains(string(b), "hidden") {
		t.Errorf("the journal has the secret: %v", err)
	}
	if said := undo(t, m); len(said) > 0 {
		t.Errorf("undo says %q", said)
	}
	// A line of its own is kept for the last line that lacked its end.
	if diff := cmp.Diff(before, tree(t, m.Root)); diff != "" {
		t.Error(diff)
	}
	if len(u.running) > 0 {
		t.Errorf("services run on: %v", u.running)
	}
	if left := m.Journal.Records().Inventory(); len(left) > 0 {
		t.Errorf("the inventory still has %v", left)
	}
}

// A process that dies leaves a journal that ends after any record. Whatever was
// done of the change that it names, undo puts the machine back.
func TestUndoAfterADeathAtAnyRecord(t *testing.T) {
	t.Parallel()
	whole, _ := newMachine(t, fresh())
	for _, s := range steps(t) {
		do(t, whole, s, secrets)
	}
	for n := range len(whole.Journal.Records()) {
		m, _ := newMachine(t, fresh())
		before := tree(t, m.Root)
		count := 0
		cut := errors.New("cut")
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = cut
				}
			}()
			j, jerr := journal.Open(m.Journal.Dir(), journal.Options{Mirror: func(journal.Record) {
				if count++; count > n {
					panic("the process dies") // right after a record, before the change
				}
			}})
			if jerr != nil {
				return jerr
			}
			dying := *m
			dying.Journal = j
			for _, s := range steps(t) {
				if _, err := dying.Run(t.Context(), node.Order{Step: s, Secrets: secrets}); err != nil {
					return err
				}
			}
			return nil
		}()
		if !errors.Is(err, cut) {
			t.Fatalf("record %d: %v", n, err)
		}
		again, aerr := journal.Open(m.Journal.Dir(), journal.Options{})
		if aerr != nil {
			t.Fatal(aerr)
		}
		m.Journal = again
		undo(t, m)
		got := tree(t, m.Root)
		if diff := cmp.Diff(before, got); diff != "" {
			t.Fatalf("death after record %d:\n%s", n+1, diff)
		}
	}
}

func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, map[string]string{"etc/x": "theirs\n"})
	s := step(t, "files", plan.FilesArgs{Files: []plan.FileArg{{To: "/etc/x", Content: "ours\n", Mode: 0o644}}})
	_, err := m.Run(t.Context(), node.Order{Step: s})
	if !errors.Is(err, node.ErrForeign) {
		t.Errorf("err = %v", err)
	}
	if got := tree(t, m.Root)["etc/x"]; !strings.HasSuffix(got, "theirs\n") {
		t.Errorf("the file is now %q", got)
	}
	undo(t, m)
	if got := tree(t, m.Root)["etc/x"]; !strings.HasSuffix(got, "theirs\n") {
		t.Errorf("undo made %q of it", got)
	}
}

func TestUndoTellsWhatSomebodyChanged(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	do(t, m, step(t, "files", plan.FilesArgs{Files: []plan.FileArg{{To: "/etc/x", Content: "ours\n", Mode: 0o644}}}), nil)
	if err := errors.Join(
		os.WriteFile(m.Path("/etc/x"), []byte("edited"), 0o644), os.WriteFile(m.Path("/etc/y"), nil, 0o644),
	); err != nil {
		t.Fatal(err)
	}
	want := []string{"/etc/x was changed since sealer wrote it", "/etc stays: it holds y, which sealer did not make"}
	if diff := cmp.Diff(want, undo(t, m)); diff != "" {
		t.Error(diff)
	}
}

func TestTreesGoWhole(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, map[string]string{"var/lib/old/file": "x"})
	before := tree(t, m.Root)
	do(t, m, step(t, "trees", plan.TreesArgs{Dirs: []string{"/var/lib/containerd", "/var/lib/old"}}), nil)
	for _, d := range []string{"containerd/a/b", "old/c"} {
		if err := os.MkdirAll(m.Path("/var/lib/"+d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	undo(t, m)
	before["var/lib/old/c"] = "drwxr-xr-x" // a directory that had something is not sealer's
	if diff := cmp.Diff(before, tree(t, m.Root)); diff != "" {
		t.Error(diff)
	}
}

func TestServiceThatRanBeforeRunsAgain(t *testing.T) {
	t.Parallel()
	m, u := newMachine(t, nil)
	u.running["containerd.service"] = true
	do(t, m, step(t, "unit", plan.UnitArgs{Name: "containerd.service"}), nil)
	undo(t, m)
	want := []string{"start containerd.service", "stop containerd.service", "start containerd.service"}
	if diff := cmp.Diff(want, u.said); diff != "" {
		t.Error(diff)
	}
}

func TestABlockThatALaterStepChangedIsLeftAlone(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, map[string]string{"etc/hosts": ""})
	args := plan.BlockArgs{File: "/etc/hosts", Mark: "c1 api", Lines: []string{"10.0.0.1 api"}, Later: []string{"10.0.0.2 api"}}
	first := step(t, "block", args)
	do(t, m, first, nil)
	args.Lines, args.Later = args.Later, nil
	do(t, m, step(t, "block", args), nil)
	if ok, err := m.Check(t.Context(), first); err != nil || !ok {
		t.Errorf("%t, %v", ok, err)
	}
	b, err := os.ReadFile(m.Path("/etc/hosts"))
	if err != nil || strings.Count(string(b), "api\n") != 1 {
		t.Errorf("%q, %v", b, err)
	}
}

func TestBlockOfAFileThatIsNotThere(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, map[string]string{"etc/other": ""})
	before := tree(t, m.Root)
	for _, mark := range []string{"a", "b"} {
		do(t, m, step(t, "block", plan.BlockArgs{File: "/etc/resolv.conf", Mark: mark, Lines: []string{"x"}}), nil)
	}
	// A process that was killed while it wrote leaves a file beside.
	if err := os.WriteFile(m.Path("/etc/.resolv.conf.sealer-new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	undo(t, m)
	if diff := cmp.Diff(before, tree(t, m.Root)); diff != "" {
		t.Error(diff)
	}
}

func TestUnknownKind(t *testing.T) {
	t.Parallel()
	m, _ := newMachine(t, nil)
	if _, err := m.Run(t.Context(), node.Order{Step: step(t, "magic", nil)}); err == nil {
		t.Error("no error")
	}
	s := step(t, "block", map[string]any{"file": "/etc/hosts", "new": 1})
	if _, err := m.Run(t.Context(), node.Order{Step: s}); err == nil || !strings.Contains(err.Error(), `unknown field "new"`) {
		t.Errorf("err = %v", err)
	}
}
