package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clusterimage/sealer/rootfs"
)

// A Sandbox is a process in namespaces of its own that waits for Run. It is not
// safe for concurrent use.
type Sandbox struct {
	ctx   context.Context // of Start: the process ends with it
	o     Options
	users users
	pid   int

	config *os.File   // the parent's end
	trees  *os.File   // the parent's end; nil if the child clones the trees itself
	report *os.File   // the parent's end
	ended  chan error // gets the process's end
}

// childConfig is the message from Run to Child.
type childConfig struct {
	Command
	Dir       string
	Chroot    bool
	Hide      []string
	Loopback  bool     // bring up the loopback interface
	UserXattr bool     // overlayfs reads attributes "user.overlay."
	OneUser   bool     // the user namespace has no user but root
	Trees     []string // the directories of Dir and of Layers
	SentTrees bool     // their mounts come over treesFile
}

// Start starts the first process of a sandbox. The process ends with ctx, with
// this process, or by Close.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	return startAs(ctx, o, possibleUsers())
}

// startAs starts a sandbox with the first of the user IDs that the machine
// allows.
func startAs(ctx context.Context, o Options, possible []users) (*Sandbox, error) {
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("prepare the sandbox: %w", err)
	}
	for _, d := range []string{Upper, "work"} {
		if err := os.Mkdir(filepath.Join(o.Dir, d), 0o755); err != nil {
			return nil, fmt.Errorf("prepare the sandbox: %w", err)
		}
	}
	var refused error
	for _, u := range possible {
		s := &Sandbox{ctx: ctx, o: o, users: u, ended: make(chan error, 1)}
		err := s.start()
		if err == nil {
			err = s.probe()
		}
		if err == nil {
			return s, nil
		}
		refused = explain(err.Error(), u)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, refused
}

// probe reports whether the file system of Dir can map user IDs, if the sandbox
// needs that, and closes a sandbox without that.
func (s *Sandbox) probe() error {
	if s.users != mappedUsers {
		return nil
	}
	trees, err := s.mapTrees([]string{s.o.Dir})
	closeAll(trees)
	if err != nil {
		s.Close()
	}
	return err
}

// UserXattr reports whether the layers must mark whiteouts by attributes
// "user.overlay.", as overlayfs reads them in a user namespace.
func (s *Sandbox) UserXattr() bool { return s.users != machineUsers || rootfs.UserXattr() }

// Lacks lists the protections that this machine does not offer, each as a
// sentence about the effect.
func (s *Sandbox) Lacks() []string {
	var out []string
	if s.users == machineUsers && !rootfs.UserXattr() {
		out = append(out, "the command runs as the machine's root: mapped user IDs need user.max_user_namespaces above 0, Linux 5.19 and a file system such as ext4, xfs or btrfs")
	}
	if landlockVersion() < landlockScope && !s.o.NoNetwork {
		out = append(out, "the command reaches the machine's abstract sockets: Linux 6.12 with Landlock closes them, and so does --run-network=none")
	}
	if len(abis()) == 0 {
		out = append(out, "system calls are not filtered: there is no filter for "+runtime.GOARCH)
	}
	return out
}

// start starts the process.
func (s *Sandbox) start() (err error) {
	var inherited []*os.File
	defer func() {
		if err != nil {
			closeFiles(append(inherited, s.config, s.report, s.trees)...)
			err = fmt.Errorf("start the sandbox: %w", err)
		}
	}()
	config, send, err := os.Pipe()
	if err != nil {
		return err
	}
	s.config, inherited = send, append(inherited, config)
	report, fail, err := os.Pipe()
	if err != nil {
		return err
	}
	s.report, inherited = report, append(inherited, fail)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.trees, inherited = os.NewFile(uintptr(pair[0]), "trees"), append(inherited, os.NewFile(uintptr(pair[1]), "trees"))
	program, err := s.users.program()
	if err != nil {
		return err
	}
	if program != nil {
		inherited = append(inherited, program)
	}
	path := "/proc/self/exe"
	if program != nil {
		path = fmt.Sprintf("/proc/self/fd/%d", treesFile+1)
	}
	cmd := exec.CommandContext(s.ctx, path)
	cmd.Args = []string{os.Args[0], ChildArgument}
	// The command could read this process's environment in /proc.
	cmd.Env = raceOptions(os.Getenv("GORACE"))
	cmd.Dir = "/"
	cmd.ExtraFiles = inherited // from configFile on
	cmd.Stdout, cmd.Stderr = s.o.Output, s.o.Output
	cmd.WaitDelay = 5 * time.Second
	cmd.SysProcAttr = s.namespaces()
	started := make(chan error, 1)
	go s.supervise(cmd, started, inherited)
	return <-started
}

// raceOptions returns the environment with the options of Go's race detector,
// for a sealer built with it. Its log stays behind: the child's user may not
// reach that directory, and the detector ends a program that cannot open its log.
func raceOptions(gorace string) []string {
	options := slices.DeleteFunc(strings.Fields(gorace), func(o string) bool { return strings.HasPrefix(o, "log_path=") })
	if len(options) == 0 {
		return []string{}
	}
	return []string{"GORACE=" + strings.Join(options, " ")}
}

// supervise starts cmd and waits for it, on one thread: the kernel sends the
// Pdeathsig when the thread that started cmd ends.
func (s *Sandbox) supervise(cmd *exec.Cmd, started chan<- error, inherited []*os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	closeFiles(inherited...) // only cmd may hold them, else their ends would never come
	if err != nil {
		started <- err
		return
	}
	s.pid = cmd.Process.Pid
	leave := limitProcesses(s.pid)
	defer leave()
	started <- nil
	s.ended <- cmd.Wait()
}

// namespaces returns the attributes that the process is started with.
func (s *Sandbox) namespaces() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL, // the kernel then ends all processes of the namespace
		Setsid:     true,
	}
	if s.o.NoNetwork {
		attr.Cloneflags |= unix.CLONE_NEWNET
	}
	s.users.apply(attr)
	return attr
}

// Run runs c and waits until all processes of the sandbox have ended. A sandbox
// runs one command. Errors are an *ExitError for a command that failed, and the
// context's for one that it ended.
func (s *Sandbox) Run(c Command) error {
	defer s.Close()
	sent := s.send(c)
	err := <-s.ended
	s.ended <- nil // for Close
	said, _ := io.ReadAll(io.LimitReader(s.report, 64<<10))
	switch {
	case s.ctx.Err() != nil:
		return context.Cause(s.ctx)
	case sent != nil && !errors.Is(sent, unix.EPIPE): // a broken pipe is a consequence
		return explain(sent.Error(), s.users)
	case len(said) > 0:
		return explain(string(said), s.users)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return &ExitError{128 + int(ws.Signal())}
		}
		return &ExitError{exit.ExitCode()}
	}
	if err != nil {
		return explain(err.Error(), s.users)
	}
	return nil
}

// send sends the process its configuration.
func (s *Sandbox) send(c Command) error {
	defer s.config.Close()
	config := childConfig{
		Command: c, Dir: s.o.Dir, Chroot: s.o.Chroot, Hide: s.o.Hide, Loopback: s.o.NoNetwork,
		UserXattr: s.UserXattr(), OneUser: s.users == oneUser, Trees: treesOf(s.o.Dir, c.Layers), SentTrees: s.users == mappedUsers,
	}
	var trees []int
	if config.SentTrees {
		var err error
		trees, err = s.mapTrees(config.Trees)
		defer closeAll(trees)
		if err != nil {
			return err
		}
	}
	if err := json.NewEncoder(s.config).Encode(config); err != nil {
		return fmt.Errorf("configure the sandbox: %w", err)
	}
	return sendTrees(s.trees, trees)
}

// mapTrees returns mounts of directories with the user IDs of the sandbox.
func (s *Sandbox) mapTrees(dirs []string) (trees []int, err error) {
	namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", s.pid))
	if err != nil {
		return nil, fmt.Errorf("map user IDs: %w", err)
	}
	defer namespace.Close()
	for _, dir := range dirs {
		fd, err := mapTree(dir, namespace)
		if err != nil {
			return trees, err
		}
		trees = append(trees, fd)
	}
	return trees, nil
}

// Close ends a sandbox whose Run was not called, and frees it. After Run it does
// nothing.
func (s *Sandbox) Close() {
	_ = s.config.Close() // Child ends when its configuration ends early
	<-s.ended
	s.ended <- nil
	closeFiles(s.report, s.trees)
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // nil, and a second time, are errors without effect
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
