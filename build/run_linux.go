package build

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/store"
)

// A runConfig is what RunChild is told.
type runConfig struct {
	Layers   []string    // directories for overlayfs, lowest first
	Dir      string      // for the mounts; has upper and work
	Rootless bool        // in a user namespace
	Chroot   bool        // the rootfs alone, not the machine's files
	Loopback bool        // an own network, which needs its loopback up
	Env      []string    // of the command
	Args     []string    // the command
	Secrets  []runSecret // written to memory
}

// execute runs the command in namespaces of its own and makes a layer of what
// it wrote.
func (st *runStep) execute(ctx context.Context, t *target) (layer store.Layer, empty bool, err error) {
	dir, remove, err := t.b.s.TempDir(ctx)
	if err != nil {
		return layer, false, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	for _, d := range []string{"upper", "work", "merged", "lower", "dev", "run", "tmp", "mnt"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return layer, false, err
		}
	}
	rootless := os.Geteuid() != 0
	layers, err := t.b.s.OverlayDirs(ctx, t.ids(), rootless)
	if err != nil {
		return layer, false, err
	}
	for len(layers) < 1 { // overlayfs wants a lower directory
		empty := filepath.Join(dir, "nothing")
		if err := os.Mkdir(empty, 0o755); err != nil {
			return layer, false, err
		}
		layers = append(layers, empty)
	}
	c := runConfig{
		Layers: layers, Dir: dir, Rootless: rootless, Chroot: t.b.o.Isolation == IsolationChroot,
		Loopback: st.network(t) == "none", Env: append(st.environment(t), proxies()...), Args: st.command(), Secrets: st.secrets,
	}
	made, err := t.mountPoints(c.Chroot)
	if err != nil {
		return layer, false, err
	}
	if err := t.child(ctx, c); err != nil {
		return layer, false, err
	}
	upper := filepath.Join(dir, "upper")
	for _, name := range made { // what only the isolation needed; os.Remove takes no directory that holds something
		if fi, err := os.Lstat(filepath.Join(upper, name)); err == nil && (fi.IsDir() || fi.Size() == 0) {
			_ = os.Remove(filepath.Join(upper, name))
		}
	}
	root, err := os.OpenRoot(upper)
	if err != nil {
		return layer, false, err
	}
	defer root.Close()
	u := &upperWalker{root: root, dir: upper, opaque: "trusted.overlay.opaque", warn: func(msg string) { t.warn(st.in, msg) }}
	if rootless {
		u.opaque = "user.overlay.opaque"
	}
	if err := u.walk("."); err != nil {
		return layer, false, err
	}
	if len(u.entries) == 0 {
		return layer, true, nil
	}
	entries, err := arrange(u.entries)
	if err != nil {
		return layer, false, err
	}
	layer, err = t.b.writeLayer(ctx, entries)
	return layer, false, err
}

// mountPoints returns the paths that isolation=chroot makes in the rootfs and
// that are to be taken out of the layer again, inner ones first.
func (t *target) mountPoints(chroot bool) ([]string, error) {
	if !chroot {
		return nil, nil
	}
	root, err := t.b.s.Rootfs(t.ids())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out []string
	for _, name := range []string{"etc/resolv.conf", "etc", "proc", "dev", "run", "tmp"} {
		if _, err := root.Lstat(name); err != nil {
			out = append(out, name)
		}
	}
	return out, nil
}

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
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{config, fail} // 3 and 4
	out := &lines{emit: func(line string) { t.b.event(Event{Line: t.prefix + line}) }}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, // the kernel then ends all processes of the namespace
		Setsid:     true,
	}
	if c.Loopback {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	if c.Rootless {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	cmd.SysProcAttr = attr
	done := make(chan error, 1)
	go func() { done <- t.start(cmd, c, send, config, fail) }()
	err = <-done
	out.flush()
	said, _ := io.ReadAll(io.LimitReader(report, 64<<10))
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errInterrupted, context.Cause(ctx))
	case len(said) > 0:
		return explain(string(said), c.Rootless)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return exitError(128 + int(ws.Signal()))
		}
		return exitError(exit.ExitCode())
	}
	if err != nil {
		return explain(err.Error(), c.Rootless)
	}
	return nil
}

// start runs the child. Pdeathsig looks at the thread that started it, so this
// goroutine keeps its thread until the child ended.
func (t *target) start(cmd *exec.Cmd, c runConfig, send, config, fail *os.File) error {
	unlock := lockThread()
	defer unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	// Only the child may hold these, or their ends would never come.
	_ = config.Close()
	_ = fail.Close()
	leave := limitProcesses(cmd.Process.Pid)
	defer leave()
	err := json.NewEncoder(send).Encode(c)
	err = errors.Join(err, send.Close())
	if werr := cmd.Wait(); werr != nil {
		return werr // what the child says weighs more than a broken pipe
	}
	return err
}

// explain says what the machine lacks.
func explain(msg string, rootless bool) error {
	if !rootless {
		return errors.New(msg)
	}
	return fmt.Errorf("%s (as an ordinary user RUN needs user namespaces: kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0, "+
		"kernel.apparmor_restrict_unprivileged_userns=0 where those exist, and Linux 5.11 or later; or run sealer as root)", msg)
}

// limitProcesses puts the process, before it goes on, into a control group that
// bounds how many it may start, where this process may make one. The returned
// function removes the group.
func limitProcesses(pid int) func() {
	const most = "8192"
	for _, base := range []string{"/sys/fs/cgroup/pids", "/sys/fs/cgroup"} {
		dir := filepath.Join(base, "sealer-run-"+strconv.Itoa(pid))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if os.WriteFile(filepath.Join(dir, "pids.max"), []byte(most), 0) == nil &&
			os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) == nil {
			return func() {
				// The kernel takes a moment to bury the last process.
				for range 100 {
					if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) {
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			}
		}
		_ = os.Remove(dir)
	}
	return func() {}
}

// An upperWalker turns overlayfs's upper directory into entries: its deletions
// become ".wh." files.
type upperWalker struct {
	root    *os.Root
	dir     string
	opaque  string // the attribute of a directory that hides the lower ones
	warn    func(msg string)
	entries []entry
}

func (u *upperWalker) walk(dir string) error {
	list, err := readDir(u.root, dir)
	if err != nil {
		return err
	}
	for _, d := range list {
		fi, err := d.Info()
		if err != nil {
			return err
		}
		name := path.Join(dir, d.Name())
		if err := u.add(name, fi); err != nil {
			return err
		}
	}
	return nil
}

func (u *upperWalker) add(name string, fi fs.FileInfo) error {
	e := entry{name: name, mode: int64(fi.Mode().Perm())}
	switch m := fi.Mode(); {
	case isWhiteout(fi):
		e = entry{name: path.Join(path.Dir(name), whiteoutPrefix+path.Base(name)), typ: tar.TypeReg, mode: 0o644}
	case strings.HasPrefix(path.Base(name), whiteoutPrefix):
		return fmt.Errorf("%s: names that begin with %s mean a deletion in a layer", name, whiteoutPrefix)
	case m.IsDir():
		e.typ = tar.TypeDir
		u.entries = append(u.entries, e)
		if u.isOpaque(name) {
			u.entries = append(u.entries, entry{name: path.Join(name, opaqueName), typ: tar.TypeReg, mode: 0o644})
		}
		return u.walk(name)
	case m.IsRegular():
		if m&fs.ModeSetuid != 0 {
			e.mode |= 0o4000
		}
		if m&fs.ModeSetgid != 0 {
			e.mode |= 0o2000
		}
		e.typ, e.size, e.root, e.path = tar.TypeReg, fi.Size(), u.root, name
	case m&fs.ModeSymlink != 0:
		link, err := u.root.Readlink(name)
		if err != nil {
			return err
		}
		e.typ, e.link, e.mode = tar.TypeSymlink, link, 0o777
	default:
		u.warn(fmt.Sprintf("%s is left out: it is %s", name, kind(m)))
		return nil
	}
	u.entries = append(u.entries, e)
	return nil
}

const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// isWhiteout reports overlayfs's mark of a deletion, a character device 0:0.
func isWhiteout(fi fs.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && fi.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0
}

func (u *upperWalker) isOpaque(name string) bool {
	var buf [1]byte
	n, err := unix.Lgetxattr(filepath.Join(u.dir, filepath.FromSlash(name)), u.opaque, buf[:])
	return err == nil && n == 1 && buf[0] == 'y'
}
