package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// listWithin bounds how long kubeadm may take to print a list.
const listWithin = time.Minute

// nobody is the user that foreign programs run as before the cluster is made.
const nobody = 65534

// memory returns a file that lies in memory alone, with the content of r. The
// caller closes it.
func memory(name string, r io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, 0)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Chmod(0o755)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

// KubeadmImages returns the images that a kubeadm with this configuration wants,
// a reference each. The program and the configuration lie in memory, and it runs
// as nobody: the machine is not changed.
func KubeadmImages(ctx context.Context, config string, kubeadm io.Reader) (_ []string, err error) {
	program, err := memory("kubeadm", kubeadm)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, program.Close()) }()
	file, err := memory("kubeadm.yml", strings.NewReader(config))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, listWithin, fmt.Errorf("no answer within %v", listWithin))
	defer cancel()
	var out, say bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/fd/3", "config", "images", "list", "--config", "/proc/self/fd/4")
	cmd.Args[0] = "kubeadm"
	cmd.ExtraFiles = []*os.File{program, file} // 3 and 4
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}, "/", &out, &say
	ownGroup(cmd)
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(say.String()), "\n")
		return nil, fmt.Errorf("kubeadm config images list: %w: %s", err, strings.Join(lines[max(0, len(lines)-maxTail):], " | "))
	}
	return strings.Fields(out.String()), nil
}
