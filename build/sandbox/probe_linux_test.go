package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const probeArgument = "probe"

// probe tries each name and prints the outcome.
func probe(names []string) {
	for _, name := range names {
		result := "allowed"
		if err := try(name); err != nil {
			result = strings.ReplaceAll(err.Error(), ": ", " - ")
		}
		fmt.Printf("%s: %s\n", name, result)
	}
}

func try(name string) error {
	verb, arg, _ := strings.Cut(name, " ")
	switch verb {
	case "read":
		return tryRead(arg)
	case "write":
		if arg == "rootfs" {
			arg = "file" // the working directory is the rootfs
		}
		return os.WriteFile(arg, []byte("x"), 0o644)
	case "overwrite":
		f, err := os.OpenFile(arg, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	case "set":
		path := map[string]string{"core_pattern": "/proc/sys/kernel/core_pattern", "swappiness": "/proc/sys/vm/swappiness"}[arg]
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, b, 0) // the value that is there
	case "make":
		return unix.Mknod("device", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0)))
	case "own":
		return tryOwner()
	case "dial":
		return tryDial(arg)
	case "listen":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		return l.Close()
	case "signal":
		return trySignal(arg)
	case "add":
		_, err := unix.AddKey("user", "sealer-probe", []byte("x"), unix.KEY_SPEC_USER_KEYRING)
		return err
	case "call":
		return tryCall(arg)
	}
	return errors.New("unknown")
}

func tryRead(arg string) error {
	switch arg {
	case "key":
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", "sealer-probe", 0)
		return err
	case "environment of 1":
		b, err := os.ReadFile("/proc/1/environ")
		if err == nil && len(b) == 0 {
			return errors.New("empty")
		}
		return err
	}
	fi, err := os.Stat(arg)
	if err != nil {
		return err
	}
	if fi.IsDir() {
		list, err := os.ReadDir(arg)
		if err == nil && len(list) == 0 {
			return errors.New("empty")
		}
		return err
	}
	f, err := os.Open(arg)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil && err != io.EOF {
		return err
	} else if err == io.EOF {
		return errors.New("empty")
	}
	return nil
}

// tryOwner changes an owner and looks at the result.
func tryOwner() error {
	if err := os.WriteFile("owned", nil, 0o644); err != nil {
		return err
	}
	if err := os.Chown("owned", 100, 100); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat("owned", &st); err != nil {
		return err
	}
	if st.Uid != 100 {
		return errors.New("the owner stayed")
	}
	return nil
}

func tryDial(arg string) error {
	network, address, _ := strings.Cut(arg, " ")
	if network == "vsock" {
		fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	if network == "abstract" {
		network = "unix"
	}
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	return c.Close()
}

func trySignal(arg string) error {
	if arg == "child" {
		cmd := exec.Command("/proc/self/exe", probeArgument, "call wait")
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := cmd.Process.Kill(); err != nil {
			return err
		}
		_ = cmd.Wait()
		return nil
	}
	var pid int
	if _, err := fmt.Sscan(arg, &pid); err != nil {
		return err
	}
	return unix.Kill(pid, 0)
}

func tryCall(name string) error {
	call := func(trap uintptr, args ...uintptr) error {
		args = append(args, make([]uintptr, 6-len(args))...)
		if _, _, errno := unix.Syscall6(trap, args[0], args[1], args[2], args[3], args[4], args[5]); errno != unix.EPERM && errno != unix.ENOSYS && errno != unix.EACCES {
			return nil // the kernel looked at the arguments: the call itself is allowed
		} else if errno != 0 {
			return errno
		}
		return nil
	}
	const bad = ^uintptr(0) // no pointer and no descriptor
	switch name {
	case "wait":
		select {}
	case "bpf":
		return call(unix.SYS_BPF, 99, bad, 8)
	case "clone newuser":
		cmd := exec.Command("/proc/self/exe", probeArgument)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	case "clone3":
		return call(unix.SYS_CLONE3, bad, 8)
	case "io_uring_setup":
		return call(unix.SYS_IO_URING_SETUP, 1, bad)
	case "kexec_load":
		return call(unix.SYS_KEXEC_LOAD, 0, 99, bad, 0)
	case "mount":
		return unix.Mount("tmpfs", ".", "tmpfs", 0, "")
	case "open_tree":
		return call(unix.SYS_OPEN_TREE, bad, bad, 0)
	case "perf_event_open":
		return call(unix.SYS_PERF_EVENT_OPEN, bad, 0, bad, bad, 0)
	case "ptrace":
		return call(unix.SYS_PTRACE, unix.PTRACE_PEEKDATA, bad, 0, 0)
	case "reboot":
		return call(unix.SYS_REBOOT, 0, 0, 0, 0) // wrong magic numbers: never done
	case "setns":
		return call(unix.SYS_SETNS, bad, 0)
	case "unshare":
		return call(unix.SYS_UNSHARE, 0)
	case "userfaultfd":
		return call(unix.SYS_USERFAULTFD, bad)
	}
	return fs.ErrInvalid
}
