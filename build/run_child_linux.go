package build

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

// RunCommand is the first argument by which a program that calls Build starts
// itself for RUN: its main function calls RunChild then, and nothing else.
const RunCommand = "run-in-namespace"

func lockThread() func() {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// RunChild is the first process in the namespaces of a RUN. It reads what to
// do from file 3, mounts, runs the command, and ends with its exit code; what
// keeps it from that is written to file 4.
func RunChild() int {
	runtime.LockOSThread() // capabilities and namespaces belong to the thread
	report := os.NewFile(4, "report")
	var c runConfig
	// The command gets neither these two nor what sealer's caller left open.
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) { // Linux before 5.11
		unix.CloseOnExec(3)
		unix.CloseOnExec(4)
		err = nil
	}
	if err == nil {
		err = json.NewDecoder(os.NewFile(3, "config")).Decode(&c)
	}
	if err == nil {
		err = c.mount()
	}
	if err == nil {
		err = c.drop()
	}
	var code int
	if err == nil {
		code, err = c.run()
	}
	if err != nil {
		fmt.Fprint(report, err)
		return 1
	}
	return code
}

// drop takes from the command every right over the machine: to mount, to make
// device nodes, to load modules, to trace. What is left is what packagers use.
func (c *runConfig) drop() error {
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

// run starts the command and waits for it, and for whatever it left behind, as
// the first process of a namespace must. When it returns, the kernel ends the
// rest.
func (c *runConfig) run() (int, error) {
	unix.Umask(0o022)
	if c.UserXattr { // counted in the user namespace; the machine's root is bounded by its control group
		limit := unix.Rlimit{Cur: maxProcesses, Max: maxProcesses}
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &limit); err != nil && !errors.Is(err, unix.EPERM) {
			return 0, fmt.Errorf("limit the processes: %w", err)
		}
	}
	if c.UserXattr || !c.Chroot { // a rootfs with programs of its own may have them run as other users
		keepOwners()
	}
	program, err := lookPath(c.Args[0], c.Env)
	if err != nil {
		return 0, err
	}
	p, err := os.StartProcess(program, c.Args, &os.ProcAttr{Env: c.Env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err // the path is the next to be named
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
