package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Runner runs the compiled tests of a package.
type runner struct {
	dir, work, program string

	reach map[int][]unit // by the id of a mutant: what evaluates it, the shortest first
}

// Unit is a test, or a subtest of a long one.
type unit struct {
	test, sub string
	took      time.Duration
}

// pattern returns the argument of -test.run for units of one test, or for tests.
func pattern(units []unit) string {
	var names []string
	for _, u := range units {
		names = append(names, regexp.QuoteMeta(cmp.Or(u.sub, u.test)))
	}
	last := "^(" + strings.Join(names, "|") + ")$"
	if units[0].sub == "" {
		return last
	}
	return "^" + units[0].test + "$/" + last
}

// long is the time from which the subtests of a test are tried one by one.
const long = 300 * time.Millisecond

// baseline runs the tests one by one, which must pass, and fills reach.
func (r *runner) baseline() error {
	out, err := r.test(time.Minute, nil, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return fmt.Errorf("list the tests: %w\n%s", err, out)
	}
	r.reach = map[int][]unit{}
	for _, name := range strings.Fields(string(out)) {
		u := unit{test: name}
		reached, subs, err := r.alone(&u)
		if err != nil {
			return err
		}
		if u.took < long || !strings.HasPrefix(name, "Test") || len(subs) < 2 {
			r.note(u, reached)
			continue
		}
		for _, sub := range subs {
			u := unit{test: name, sub: sub}
			if reached, _, err = r.alone(&u); err != nil {
				return err
			}
			r.note(u, reached)
		}
	}
	for _, units := range r.reach {
		slices.SortFunc(units, func(a, b unit) int { return cmp.Compare(a.took, b.took) })
	}
	return nil
}

func (r *runner) note(u unit, reached []int) {
	for _, id := range reached {
		r.reach[id] = append(r.reach[id], u)
	}
}

var subtest = regexp.MustCompile(`(?m)^=== RUN +[^/\n]+/(.+)$`)

// alone runs a unit, sets its time, and returns the mutants that it reaches and
// the names of its subtests: none when their names have slashes.
func (r *runner) alone(u *unit) (reached []int, subs []string, err error) {
	file := filepath.Join(r.work, "reached")
	start := time.Now()
	out, err := r.test(10*time.Minute, []string{"MUTANTS_REACHED=" + file}, "-test.v", "-test.run", pattern([]unit{*u}))
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s without a mutant: %w\n%s", u.test, u.sub, err, out)
	}
	u.took = time.Since(start)
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, line := range strings.Fields(string(b)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return nil, nil, err
		}
		reached = append(reached, id)
	}
	slices.Sort(reached) // a test that starts processes has several that reach a mutant
	for _, m := range subtest.FindAllStringSubmatch(string(out), -1) {
		parent, _, below := strings.Cut(m[1], "/")
		if below && !slices.Contains(subs, parent) {
			subs = nil
			break
		}
		if !below {
			subs = append(subs, m[1])
		}
	}
	return slices.Compact(reached), subs, os.RemoveAll(file)
}

// Outcome is the end of a mutant.
type outcome int

const (
	missed outcome = iota // no test reaches it
	killed
	hung // a test takes ten times as long as without it, and some seconds
	lived
)

// together bounds a group of tests that one process runs, by the sum of their
// times. Starting a process costs more than a short test, so the shortest tests
// share the first process; the longer ones run only when that has passed.
const together = 200 * time.Millisecond

// try runs the tests that reach the mutant until one fails.
func (r *runner) try(id int) outcome {
	units := r.reach[id]
	if len(units) == 0 {
		return missed
	}
	for len(units) > 0 {
		n, took := 1, units[0].took
		for n < len(units) && took+units[n].took < together && (units[n].sub == "") == (units[0].sub == "") && (units[0].sub == "" || units[n].test == units[0].test) {
			took += units[n].took
			n++
		}
		_, err := r.test(10*time.Second+10*took, []string{"MUTANT=" + strconv.Itoa(id)}, "-test.failfast", "-test.run", pattern(units[:n]))
		if errors.Is(err, context.DeadlineExceeded) {
			return hung
		} else if err != nil {
			return killed
		}
		units = units[n:]
	}
	return lived
}

// test runs the program in the package's folder, with temporary files of its
// own, and ends it and its children after the time. A mutant may ask for memory
// without end: 8 GiB are the most that it gets.
func (r *runner) test(most time.Duration, env []string, args ...string) ([]byte, error) {
	temp, err := os.MkdirTemp(r.work, "run-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 8388608; exec "$0" "$@"`, r.program}, args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(append(os.Environ(), "TMPDIR="+temp), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.Bytes(), cmp.Or(ctx.Err(), err)
}
