package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child starts RunChild and waits for it.
func (t *target) child(ctx context.Context, c runConfig) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config, send, err := os.Pipe()
	if err != nil {
		return err
	}
	defer config.Close()
	defer send.Close()
	report, fail, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	defer fail.Close()

	cmd := exec.CommandContext(ctx, self)
	cmd.Args = []string{os.Args[0], RunCommand}
	// The command could read it; what Go's race detector is told is no secret.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return !strings.HasPrefix(kv, "GORACE=") })
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{config, fail} // 3 and 4
	out := &lines{emit: func(line string) { t.b.event(Event{Line: t.prefix + line}) }}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = c.namespaces()
	done := make(chan error, 1)
	go func() { done <- t.start(cmd, c, send, config, fail) }()
	err = <-done
	out.flush()
	said, _ := io.ReadAll(io.LimitReader(report, 64<<10))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	case len(said) > 0:
		return explain(string(said), c.OwnUser)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return exitError(128 + int(ws.Signal()))
		}
		return exitError(exit.ExitCode())
	}
	if err != nil {
		return explain(err.Error(), c.OwnUser)
	}
	return nil
}

// namespaces says how the child is started.
func (c *runConfig) namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, // the kernel then ends all processes of the namespace
		Setsid:     true,
	}
	if c.Loopback {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if c.OwnUser {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// start runs the child. Pdeathsig looks at the thread that started it, so this
// goroutine keeps its thread until the child ended.
func (t *target) start(cmd *exec.Cmd, c runConfig, send, config, fail *os.File) error {
	unlock := lockThread()
	defer unlock()
	err := cmd.Start()
	// Only the child may hold these, or their ends would never come: nor does
	// one that could not be started.
	_ = config.Close()
	_ = fail.Close()
	if err != nil {
		return err
	}
	leave := limitProcesses(cmd.Process.Pid)
	defer leave()
	err = json.NewEncoder(send).Encode(c)
	err = errors.Join(err, send.Close())
	if werr := cmd.Wait(); werr != nil {
		return werr // what the child says weighs more than a broken pipe
	}
	return err
}

// mayMount reports whether this process may make mounts: in its user namespace
// it has CAP_SYS_ADMIN, which root in a container has not as a rule.
func mayMount() bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// explain says what the machine lacks.
func explain(msg string, ownUser bool) error {
	if !ownUser || strings.HasPrefix(msg, "start ") { // the command itself, not its namespaces
		return errors.New(msg)
	}
	if name, err := os.Readlink("/proc/self"); err != nil || name != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("%s (/proc shows another PID namespace than sealer's, so the kernel cannot be told who runs the command: mount it, with unshare --mount-proc, or run sealer as root)", msg)
	}
	return fmt.Errorf("%s (without CAP_SYS_ADMIN RUN needs user namespaces: kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, "+
		"kernel.apparmor_restrict_unprivileged_userns=0 where those exist, and Linux 5.11 or later; in a container, one that is --privileged; or run sealer as root)", msg)
}

// maxProcesses bounds how many processes and threads a RUN may have at a time.
const maxProcesses = 8192

// limitProcesses puts the process, before it goes on, into a control group that
// bounds how many it may start, where this process may make one. The returned
// function removes the group.
func limitProcesses(pid int) func() {
	base := groupBase()
	if base == "" {
		return func() {}
	}
	// A sealer that was killed could not remove its own. The kernel refuses
	// this for groups that hold a process; one that just gets its first, of a
	// sealer beside this, is made again.
	old, _ := filepath.Glob(filepath.Join(base, "sealer-run-*"))
	for _, name := range old {
		_ = os.Remove(name)
	}
	dir := filepath.Join(base, "sealer-run-"+strconv.Itoa(pid))
	for range 3 {
		if enterGroup(dir, pid) == nil {
			return func() { leaveGroup(dir) }
		}
	}
	return func() {}
}

// groupBase returns the control group below which one for a RUN can be made
// without leaving this process's own, whose limits hold; "" when there is none.
// In the second version of control groups only the root may have processes and
// groups; what systemd starts elsewhere it bounds itself.
func groupBase() string {
	content, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(content)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3) // proc(5): number, controllers, path
		switch {
		case len(part) == 3 && part[1] == "pids":
			return filepath.Join("/sys/fs/cgroup/pids", part[2])
		case len(part) == 3 && part[0] == "0" && part[2] == "/":
			if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
				return "/sys/fs/cgroup"
			}
		}
	}
	return ""
}

func enterGroup(dir string, pid int) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(maxProcesses)), 0)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	}
	if err != nil {
		_ = os.Remove(dir)
	}
	return err
}

// leaveGroup removes the group. The kernel takes a moment to bury its last
// process.
func leaveGroup(dir string) {
	for range 100 {
		if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
