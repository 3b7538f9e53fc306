package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// kills kills n commands at random moments.
func (l *lab) kills(n int) {
	root := l.dir + "/kills"
	if err := l.fill(root); err != nil {
		l.lost("fill: %v", err)
		return
	}
	took := map[string]time.Duration{} // by the command that was not killed
	for i := range n {
		o := l.op(i)
		if took[o.name] == 0 {
			l.event(o, root, n+i, func(_ string, args []string, _ map[string]string, _ []string) (bool, error) {
				start := time.Now()
				_, err := l.run(root, args...)
				took[o.name] = time.Since(start)
				return true, err
			}, nil)
		}
		l.event(o, root, i, func(_ string, args []string, _ map[string]string, _ []string) (bool, error) {
			cmd := l.command(context.Background(), root, nil, args...)
			if err := cmd.Start(); err != nil {
				return false, err
			}
			timer := time.AfterFunc(time.Duration(l.rng.Int64N(int64(took[o.name]))), func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			return !timer.Stop() && err != nil, err
		}, nil)
		if i%20 == 19 {
			l.minimal(fmt.Sprint("after kill ", i), root)
		}
	}
	l.minimal("at the end", root)
}

// failing are the system calls that faults makes fail, with their errors.
var failing = []struct{ call, errors string }{
	{"openat", "EIO ENOSPC EMFILE EACCES"}, {"write", "EIO ENOSPC EDQUOT"}, {"pwrite64", "EIO ENOSPC"}, {"read", "EIO"}, {"pread64", "EIO"},
	{"fsync", "EIO ENOSPC"}, {"fdatasync", "EIO"}, {"syncfs", "EIO ENOSPC"}, {"renameat", "EIO ENOSPC"}, {"renameat2", "EIO ENOSPC"}, {"linkat", "EIO ENOSPC EMLINK"},
	{"unlinkat", "EIO"}, {"mkdirat", "ENOSPC EIO"}, {"fchmod", "EIO"}, {"fchmodat", "EIO"}, {"ftruncate", "EIO"}, {"newfstatat", "EIO"}, {"getdents64", "EIO"},
	{"flock", "EINTR ENOLCK"}, {"symlinkat", "ENOSPC"}, {"utimensat", "EIO"}, {"copy_file_range", "EIO ENOSPC"}, {"fchownat", "EIO"},
}

// faults makes n system calls of commands fail.
func (l *lab) faults(n int) {
	if out, err := exec.Command("strace", "-qq", "-e", "trace=none", "true").CombinedOutput(); err != nil {
		l.skip(n, "strace cannot be used: %v %s", err, out)
		return
	}
	root := l.dir + "/faults"
	if err := l.fill(root); err != nil {
		l.lost("fill: %v", err)
		return
	}
	for i := range n {
		f := failing[l.rng.IntN(len(failing))]
		errors := strings.Fields(f.errors)
		inject := fmt.Sprintf("inject=%s:error=%s:when=%d", f.call, errors[l.rng.IntN(len(errors))], 1+l.rng.IntN(8))
		trace := l.dir + "/trace"
		l.event(l.op(i), root, i, func(event string, args []string, _ map[string]string, _ []string) (bool, error) {
			_, err := l.runBehind([]string{"strace", "-f", "-qq", "-o", trace, "-e", "trace=" + f.call, "-e", inject}, root, args...)
			if err != nil && strings.Contains(err.Error(), "goroutine ") && strings.Contains(err.Error(), "panic: ") {
				l.lost("%s: %s: %v", event, inject, err)
			}
			b, _ := os.ReadFile(trace)
			return strings.Contains(string(b), "(INJECTED)"), err
		}, nil)
	}
	l.minimal("at the end", root)
}
