package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// killAfter runs sealer in a process group of its own and kills the group at the
// n-th event of a step.
func killAfter(ts *testscript.TestScript, n string, args []string) error {
	left, err := strconv.Atoi(n)
	if err != nil {
		return err
	}
	path, err := lookSealer(ts)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, append([]string{"--progress=json"}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = environment(ts)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	events, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var all strings.Builder
	for s := bufio.NewScanner(events); s.Scan(); {
		fmt.Fprintln(&all, s.Text())
		if !strings.Contains(s.Text(), `"type":"begin"`) && !strings.Contains(s.Text(), `"type":"done"`) {
			continue
		}
		if left--; left == 0 {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait() // it was killed
			return nil
		}
	}
	err = cmd.Wait()
	return fmt.Errorf("sealer ended before (%v), %d events left:\n%s", err, left, all.String())
}

func lookSealer(ts *testscript.TestScript) (string, error) {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if p, err := exec.LookPath(dir + "/sealer"); err == nil {
			return p, nil
		}
	}
	return "", exec.ErrNotFound
}

func environment(ts *testscript.TestScript) []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "SEALER_ROOT", "KUBEAPI", "WORK", "TMPDIR", "NO_PROXY", "GORACE"} {
		env = append(env, k+"="+ts.Getenv(k))
	}
	return env
}
