package rootfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The files that CommandChild inherits.
const (
	commandConfig = 3 + iota // a commandRequest
	commandReport            // gets the error that keeps the command from running; closed when it runs
)

// commandRequest is the message from RunCommand to CommandChild.
type commandRequest struct {
	Overlay Overlay
	Target  string
	Args    []string
	Env     []string
}

// mayMount reports whether this process may mount in its user namespace.
func mayMount() bool {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// RunCommand runs c and returns its exit code: 128 and the signal for one that a
// signal ended. The command gets SIGTERM when ctx ends. An error says that it did
// not run; it wraps ErrNamespace where the kernel refuses.
func RunCommand(ctx context.Context, c Command) (code int, err error) {
	fail := func(err error) (int, error) {
		return 0, fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	fd, err := unix.MemfdCreate("sealer-command", unix.MFD_CLOEXEC)
	if err != nil {
		return fail(err)
	}
	config := os.NewFile(uintptr(fd), "sealer-command")
	defer config.Close()
	err = json.NewEncoder(config).Encode(commandRequest{c.Overlay, c.Target, c.Args, c.Env})
	if err == nil {
		_, err = config.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fail(err)
	}
	report, reports, err := os.Pipe()
	if err != nil {
		return fail(err)
	}
	defer report.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{os.Args[0], CommandArgument}
	cmd.Env = c.Env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, c.Out, c.Err
	cmd.ExtraFiles = []*os.File{config, reports}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = c.namespaces()
	// The kernel sends the Pdeathsig when the thread ends that started the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	_ = reports.Close() // only the command may hold it, else its end would never come
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EUSERS) {
		err = fmt.Errorf("%w: %w", ErrNamespace, err)
	}
	if err != nil {
		return fail(err)
	}
	said, _ := io.ReadAll(io.LimitReader(report, 64<<10))
	err = cmd.Wait()
	var answer commandAnswer
	if len(said) > 0 && json.Unmarshal(said, &answer) == nil {
		if answer.Refused {
			return 0, fmt.Errorf("%s: %w", answer.Error, ErrNamespace)
		}
		return 0, errors.New(answer.Error)
	}
	if cmd.ProcessState == nil {
		return fail(err)
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}

// namespaces returns the attributes that the process is started with.
func (c Command) namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if c.User {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// commandAnswer is the message from CommandChild to RunCommand.
type commandAnswer struct {
	Error   string
	Refused bool // the kernel refused to mount
}

// CommandChild mounts the overlay and becomes the command. It returns an exit code
// where it could not.
func CommandChild() int {
	report := os.NewFile(commandReport, "report")
	refused, err := commandChild()
	_ = json.NewEncoder(report).Encode(commandAnswer{err.Error(), refused}) // the parent is gone, if nobody reads it
	return 1
}

func commandChild() (refused bool, err error) {
	runtime.LockOSThread()
	for _, fd := range []int{commandConfig, commandReport} {
		unix.CloseOnExec(fd)
	}
	var c commandRequest
	if err := json.NewDecoder(os.NewFile(commandConfig, "config")).Decode(&c); err != nil {
		return false, fmt.Errorf("read the configuration: %w", err)
	}
	denied := func(err error) bool { return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) }
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return denied(err), fmt.Errorf("make mounts private: %w", err)
	}
	if err := c.Overlay.Mount(c.Target); err != nil {
		return denied(err), err
	}
	if err := os.Chdir(c.Target); err != nil {
		return false, err
	}
	program, err := exec.LookPath(c.Args[0])
	if err != nil {
		return false, err
	}
	return false, fmt.Errorf("run %s: %w", program, unix.Exec(program, c.Args, c.Env))
}
