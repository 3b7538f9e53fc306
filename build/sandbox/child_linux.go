package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// The files that Child inherits.
const (
	configFile = 3 + iota // a childConfig
	reportFile            // gets the error that keeps Child from running the command
	treesFile             // a socket with the mounts of childConfig.Trees, if they come from the parent
)

// Child is the first process of a sandbox. It makes the command's view of the
// machine, runs the command and returns its exit code.
func Child() int {
	runtime.LockOSThread() // capabilities, namespaces and filters belong to the thread
	report := os.NewFile(reportFile, "report")
	code, err := child()
	if err != nil {
		fmt.Fprint(report, err)
		return 1
	}
	return code
}

func child() (int, error) {
	// The command inherits neither these files nor others that the caller of this
	// program left open.
	err := unix.CloseRange(configFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // Linux before 5.11
		for fd := configFile; fd <= treesFile; fd++ {
			unix.CloseOnExec(fd)
		}
	}
	var c childConfig
	if err := json.NewDecoder(os.NewFile(configFile, "config")).Decode(&c); err != nil {
		return 0, fmt.Errorf("read the configuration: %w", err)
	}
	trees, err := c.openTrees()
	if err != nil {
		return 0, err
	}
	if err := c.mount(trees); err != nil {
		return 0, err
	}
	if err := drop(); err != nil {
		return 0, err
	}
	return c.run()
}

// drop takes from the command the rights over the machine: to mount, to make
// device nodes, to load modules, to trace. The rest is used by packagers.
func drop() error {
	keep := map[uintptr]bool{
		unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true, unix.CAP_KILL: true,
		unix.CAP_SETGID: true, unix.CAP_SETUID: true, unix.CAP_SETPCAP: true, unix.CAP_SETFCAP: true, unix.CAP_NET_BIND_SERVICE: true,
	}
	for i := uintptr(0); i <= unix.CAP_LAST_CAP; i++ {
		if keep[i] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, i, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capabilities: %w", err)
		}
	}
	return nil
}

// confine restricts this thread and the programs that it starts.
func (c *childConfig) confine() error {
	if c.UserXattr { // counted in the user namespace; the control group limits the others
		limit := unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("limit the processes: %w", err)
		}
	}
	// The kernel may give a core file to a program of the machine (core_pattern),
	// which would run as root on bytes that the command chose.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	// A new session keyring hides the keys of the session that started sealer.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("make a session keyring: %w", err)
	}
	var writable []string
	if !c.Chroot {
		writable = []string{Root, "/dev", "/proc", "/run", "/tmp"}
	}
	if err := restrict(writable); err != nil {
		return err
	}
	// A rootfs with programs of its own may have them run as other users, if the
	// user namespace has others.
	return filterCalls(c.OneUser || !c.Chroot)
}

// run starts the command and waits for it and for the processes that it left
// behind, as the first process of a namespace must. When run returns, the kernel
// ends the others.
func (c *childConfig) run() (int, error) {
	unix.Umask(0o022)
	program, err := lookPath(c.Args[0], c.Env)
	if err != nil {
		return 0, err
	}
	if err := c.confine(); err != nil {
		return 0, err
	}
	p, err := os.StartProcess(program, c.Args, &os.ProcAttr{Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // without the path, which the error names below
	}
	switch {
	case errors.Is(err, os.ErrNotExist) && c.Chroot:
		return 0, fmt.Errorf("start %s: %w: with --isolation=chroot the rootfs must bring it, and what interprets or loads it", c.Args[0], err)
	case err != nil:
		return 0, fmt.Errorf("start %s: %w", c.Args[0], err)
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for %s: %w", c.Args[0], err)
		case pid != p.Pid:
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}

// lookPath finds a program on the PATH of env.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for dir := range strings.SplitSeq(list, ":") {
			p := filepath.Join(dir, name)
			if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("start %s: not found on PATH", name)
}

// loopbackUp brings up lo in a network namespace of its own.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}
