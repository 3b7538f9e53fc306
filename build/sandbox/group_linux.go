package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// maxProcesses is the limit of processes and threads of a command.
const maxProcesses = 8192

// limitProcesses puts a process into a control group with maxProcesses, if this
// process may make one. The returned function removes the group.
func limitProcesses(pid int) func() {
	base := groupBase()
	if base == "" {
		return func() {}
	}
	// Remove the groups of programs that were killed. The kernel keeps a group
	// with processes. A group that another program has just made and not yet
	// entered is removed, too: that program makes it again, below.
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

// groupBase returns the control group to make one in, so that the limits of this
// process's own group go on to hold; "" if there is none. In version 2 only the
// root group may have both processes and groups. Programs that systemd starts
// have a limit from systemd.
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

// leaveGroup removes the group, and waits until the kernel has removed the last
// process from it.
func leaveGroup(dir string) {
	for range 100 {
		if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
