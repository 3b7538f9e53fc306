package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kubeadmReset makes the machine no node any more. kubelet stops first, so that
// nothing that reset removes starts again. Then "kubeadm reset" takes a
// master's etcd out of its cluster and ends the pods. The files that remain
// after it are removed last.
func (m *Machine) kubeadmReset(ctx context.Context, socket string, log func(string)) error {
	if err := m.Units.Stop(ctx, kubeletUnit); err != nil {
		return err
	}
	if p := m.lookup("kubeadm"); p != "kubeadm" {
		argv := []string{"kubeadm", "reset", "--force"}
		if socket != "" {
			argv = append(argv, "--cri-socket", socket)
		}
		if err := m.run(ctx, program{Args: argv}, log); err != nil {
			return err
		}
	}
	if err := m.unmountBelow("/var/lib/kubelet"); err != nil {
		return err
	}
	for _, dir := range []string{"/etc/kubernetes", "/var/lib/kubelet", "/var/lib/etcd"} {
		if err := m.empty(dir); err != nil {
			return err
		}
	}
	return nil
}

// empty removes the entries of a directory and leaves the directory itself.
func (m *Machine) empty(dir string) error {
	entries, err := os.ReadDir(m.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(m.Path(dir), e.Name())))
	}
	return err
}

// unmountBelow unmounts all that is mounted at or below the directory, the
// innermost first.
func (m *Machine) unmountBelow(dir string) error {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	dir = m.Path(dir)
	var points []string
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 5 {
			continue
		}
		point := unescapeMount(fields[4])
		if point == dir || strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	var errs []error
	for _, p := range slices.Backward(points) { // a mount inside another stands after it
		if err := unmount(p); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// unescapeMount turns \040 of mountinfo into a space, and so on.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// capture runs a program and returns its output; nothing when the machine has no
// such program.
func capture(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}
