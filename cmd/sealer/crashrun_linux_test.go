package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// crashrun POINTS MACHINE ARGS... kills "sealer run ARGS..." on the machine in
// the directory MACHINE at POINTS points, evenly spread over all points; "all"
// is all. A point is a number of journal records, of a run or of a delete, and the
// processes that are killed (SIGKILL) once the journal has them: the engine, the
// machine's process, or both. After it the same command must end in the same
// state, and a delete in the state from before the first run; every third point
// deletes without running again.
func crashrun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: crashrun POINTS MACHINE ARGS...")
	}
	path, err := lookSealer(ts)
	ts.Check(err)
	c := &crasher{ts: ts, sealer: path, machine: ts.MkAbs(args[1]), run: append([]string{"run"}, args[2:]...)}
	c.delete = append([]string{"delete", "--all", "--yes"}, "--machine", c.machine)
	ts.Check(c.reference())
	points := c.points()
	n := len(points)
	if args[0] != "all" {
		n, err = strconv.Atoi(args[0])
		ts.Check(err)
	}
	began := time.Now()
	for i := range min(n, len(points)) {
		p := points[i*len(points)/min(n, len(points))]
		if err := c.crash(p, i); err != nil {
			ts.Fatalf("point %d, %v killed at record %d of %s: %v", i, p.victims, p.record, p.verb, err)
		}
	}
	fmt.Fprintf(ts.Stdout(), "%d points of %d: %d kills during run (%d records), %d during delete (%d records); victims: %v; records in the journal at the death: %d different counts\n",
		min(n, len(points)), len(points), c.kills["run"], c.records["run"], c.kills["delete"], c.records["delete"], c.count, len(c.at))
	fmt.Fprintf(ts.Stdout(), "ended in the same state: %d; left no difference after delete: %d; %d commands ended before their point; %.0f s\n", c.same, c.clean, c.late, time.Since(began).Seconds())
}

// A point is where something is killed.
type point struct {
	verb    string // run or delete
	record  int
	victims string // engine, node or both
}

type crasher struct {
	ts              *testscript.TestScript
	sealer, machine string
	run, delete     []string
	before, after   string         // the states of the machine
	records         map[string]int // by verb: the records that a whole command writes
	kills, count    map[string]int
	at              map[string]bool
	same, clean     int
	late            int
}

// reference runs and deletes without a crash.
func (c *crasher) reference() error {
	c.records, c.kills, c.count, c.at = map[string]int{}, map[string]int{}, map[string]int{}, map[string]bool{}
	c.before = c.state()
	first, err := c.command(c.run, point{}, 0)
	if err != nil {
		return err
	}
	c.records["run"], c.after = first, c.state()
	last, err := c.command(c.delete, point{}, 0)
	if err != nil {
		return err
	}
	c.records["delete"] = last - first
	return c.deleted()
}

func (c *crasher) points() []point {
	var out []point
	for _, victims := range []string{"engine", "node", "both"} {
		for _, verb := range []string{"run", "delete"} {
			for r := range c.records[verb] {
				out = append(out, point{verb, r + 1, victims})
			}
		}
	}
	return out
}

// crash kills at one point and looks at what the same commands make of it.
func (c *crasher) crash(p point, i int) error {
	c.ts.Setenv("CRASH", fmt.Sprint(i))
	late := time.Duration(i%4) * 700 * time.Microsecond // some die a little after the record
	if p.verb == "run" {
		if _, err := c.command(c.run, p, late); err != nil {
			return err
		}
		if i%3 == 2 {
			_, err := c.command(c.delete, point{}, 0)
			return errors.Join(err, c.deleted())
		}
	}
	if _, err := c.command(c.run, point{}, 0); err != nil {
		return fmt.Errorf("the same command: %w", err)
	}
	if diff := difference(c.after, c.state()); diff != "" {
		return fmt.Errorf("the machine is not in the same state:\n%s", diff)
	}
	c.same++
	if p.verb == "delete" {
		if _, err := c.command(c.delete, p, late); err != nil {
			return err
		}
		if _, err := os.Stat(c.journals()); err != nil && c.known() == "" {
			return c.deleted() // it was through
		}
	}
	_, err := c.command(c.delete, point{}, 0)
	return errors.Join(err, c.deleted())
}

func (c *crasher) known() string {
	dirs, _ := filepath.Glob(filepath.Join(c.ts.Getenv("SEALER_ROOT"), "clusters", "*"))
	return strings.Join(dirs, " ")
}

// deleted compares with the state before the first run.
func (c *crasher) deleted() error {
	if diff := difference(c.before, c.state()); diff != "" {
		return fmt.Errorf("delete left a difference:\n%s", diff)
	}
	if dirs := c.known(); dirs != "" {
		return fmt.Errorf("delete left %s", dirs)
	}
	c.clean++
	return nil
}

// journals is the directory with the directories of clusters on the machine.
func (c *crasher) journals() string { return filepath.Join(c.machine, "var/lib/sealer/data") }

// journal counts the records of the machine's journal.
func (c *crasher) journal() int {
	files, _ := filepath.Glob(filepath.Join(c.journals(), "*/journal"))
	n := 0
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may go meanwhile
		n += bytes.Count(b, []byte("\n"))
	}
	return n
}

// patience is how long a command may take.
const patience = 90 * time.Second

// command runs sealer and returns the most records that the journal had. With a
// point, the processes die once the journal has grown by that many records.
func (c *crasher) command(args []string, p point, late time.Duration) (most int, err error) {
	cmd := exec.Command(c.sealer, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.ts.MkAbs("."), c.environment(), &out, &out
	before := c.journal()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.Now().Add(patience)
	for {
		n := c.journal()
		most = max(most, n)
		if p.record > 0 && n-before >= p.record {
			time.Sleep(late)
			c.kill(cmd.Process.Pid, p)
			c.at[fmt.Sprint(p.verb, c.journal())] = true
			select {
			case <-ended: // killed, or without its machine
				return most, nil
			case <-time.After(patience):
				_ = cmd.Process.Kill()
				return most, fmt.Errorf("sealer does not end without its machine:\n%s", out.String())
			}
		}
		select {
		case err := <-ended:
			if p.record > 0 {
				c.late++
				return most, nil
			}
			if err != nil {
				err = fmt.Errorf("sealer %s: %w\n%s", strings.Join(args, " "), err, out.String())
			}
			return most, err
		default:
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			return most, fmt.Errorf("sealer %s: no end within %v:\n%s", strings.Join(args, " "), patience, out.String())
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// kill ends the victims of a point at once.
func (c *crasher) kill(engine int, p point) {
	node := childOf(engine)
	if p.victims != "node" {
		_ = unix.Kill(engine, unix.SIGKILL)
	}
	if p.victims != "engine" && node > 0 {
		_ = unix.Kill(node, unix.SIGKILL)
	}
	c.kills[p.verb]++
	c.count[p.victims]++
}

// childOf finds the process of the machine: sealer's child.
func childOf(pid int) int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				return n
			}
		}
	}
	return 0
}

// changing are the files whose content is another in each run: journals, keys and
// certificates, logs and numbers of processes. Only their names count.
var changing = regexp.MustCompile(`^(var/log/|var/lib/sealer/data/[^/]+/(journal|saved/|units/|pki/|kubeadm/)|etc/kubernetes/|var/lib/sealer/(lock\.d|index|stat))`)

// passing are files that may or may not be there: the log, which tells how often
// something was done.
var passing = regexp.MustCompile(`^(var/log|var/lib/sealer/data/[^/]+/saved/)`)

// state is all that is on the machine, a line each.
func (c *crasher) state() string {
	var lines []string
	err := filepath.WalkDir(c.machine, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(c.machine, path)
		if err != nil || passing.MatchString(name) {
			return err
		}
		line := fmt.Sprintf("%s %s", name, info.Mode())
		switch {
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " " + to
		case info.Mode().IsRegular() && !changing.MatchString(name):
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		lines = append(lines, line)
		return nil
	})
	c.ts.Check(err)
	return strings.Join(lines, "\n")
}

// difference lists the lines that one of the states alone has.
func difference(want, got string) string {
	lines := map[string]string{}
	for _, l := range strings.Split(want, "\n") {
		lines[l] = "- " + l
	}
	for _, l := range strings.Split(got, "\n") {
		if _, both := lines[l]; both {
			delete(lines, l)
		} else {
			lines[l] = "+ " + l
		}
	}
	return strings.Join(slices.Sorted(maps.Values(lines)), "\n")
}

func (c *crasher) environment() []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "SEALER_ROOT", "KUBEAPI", "WORK", "TMPDIR", "NO_PROXY", "GORACE"} {
		env = append(env, k+"="+c.ts.Getenv(k))
	}
	return env
}

func lookSealer(ts *testscript.TestScript) (string, error) {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if p, err := exec.LookPath(dir + "/sealer"); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}
