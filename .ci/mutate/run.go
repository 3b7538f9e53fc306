package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Runner runs the compiled tests of a package.
type runner struct {
	dir, work, program string

	took  map[string]time.Duration // by test
	reach map[int][]string         // the tests that evaluate a mutant, by its id; the shortest first
}

// baseline runs the tests one by one, which must pass, and fills took and reach.
func (r *runner) baseline() error {
	out, err := r.test(time.Minute, nil, "-test.list", "^(Test|Fuzz|Example)")
	if err != nil {
		return fmt.Errorf("list the tests: %w\n%s", err, out)
	}
	r.took, r.reach = map[string]time.Duration{}, map[int][]string{}
	for _, name := range strings.Fields(string(out)) {
		reached := filepath.Join(r.work, name)
		start := time.Now()
		if out, err := r.test(10*time.Minute, []string{"MUTANTS_REACHED=" + reached}, "-test.run", "^"+name+"$"); err != nil {
			return fmt.Errorf("%s without a mutant: %w\n%s", name, err, out)
		}
		r.took[name] = time.Since(start)
		b, err := os.ReadFile(reached)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		seen := map[int]bool{} // a test that starts processes has several that reach a mutant
		for _, line := range strings.Fields(string(b)) {
			id, err := strconv.Atoi(line)
			if err != nil {
				return err
			}
			if !seen[id] {
				seen[id] = true
				r.reach[id] = append(r.reach[id], name)
			}
		}
	}
	for _, names := range r.reach {
		slices.SortFunc(names, func(a, b string) int { return cmp.Compare(r.took[a], r.took[b]) })
	}
	return nil
}

// A process for some tests costs less than one for each: those that take less
// than that together are one, and the others come when they have passed.
const together = 200 * time.Millisecond

// Outcome is the end of a mutant.
type outcome int

const (
	missed outcome = iota // no test reaches it
	killed
	hung // a test takes ten times as long as without it, and some seconds
	lived
)

// try runs the tests that reach the mutant until one fails.
func (r *runner) try(id int) outcome {
	names := r.reach[id]
	if len(names) == 0 {
		return missed
	}
	for len(names) > 0 {
		n, took := 1, r.took[names[0]]
		for n < len(names) && took+r.took[names[n]] < together {
			took += r.took[names[n]]
			n++
		}
		_, err := r.test(10*time.Second+10*took, []string{"MUTANT=" + strconv.Itoa(id)}, "-test.failfast", "-test.run", "^("+strings.Join(names[:n], "|")+")$")
		if errors.Is(err, context.DeadlineExceeded) {
			return hung
		} else if err != nil {
			return killed
		}
		names = names[n:]
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
