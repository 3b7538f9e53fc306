package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"sync"
	"syscall"
	"time"
)

// Local is the machine that this process runs on. The zero value is ready.
// Password answers sudo where sudo asks, for a user who is not root.
type Local struct {
	Password string

	once    sync.Mutex
	root    root // found at the first command that needs it
	rootErr error
}

var _ Host = (*Local)(nil)

// killGrace is how long a program that is to end has for it.
const killGrace = 5 * time.Second

// Run starts a program on this machine.
func (l *Local) Run(ctx context.Context, c Command) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.AsUser || os.Getuid() == 0 {
		return runLocal(ctx, c)
	}
	r, err := l.becomes(ctx)
	if err != nil {
		return err
	}
	return r.explain(c, runLocal(ctx, r.become(c, l.Password)))
}

func (l *Local) becomes(ctx context.Context) (root, error) {
	l.once.Lock()
	defer l.once.Unlock()
	if l.root == rootUnknown && l.rootErr == nil {
		name := "?"
		if u, err := user.Current(); err == nil {
			name = u.Username
		}
		l.root, l.rootErr = findRoot(ctx, runLocal, name, l.Password)
	}
	return l.root, l.rootErr
}

func runLocal(ctx context.Context, c Command) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	last := &tail{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdout, c.stderr(last)
	cmd.Env = append(os.Environ(), c.Env...)
	ownGroup(cmd)
	cmd.WaitDelay = killGrace
	if err := feedLocal(cmd, c.Stdin); err != nil {
		return fmt.Errorf("run %s: %w", c.Args[0], err)
	}
	err := cmd.Run()
	if cmd.Process != nil && ctx.Err() != nil {
		killGroup(cmd)
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // a child in the background keeps the streams
		return nil
	case errors.As(err, &exit):
		return exitError(c, exit, last.String())
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return &ExitError{Program: c.Args[0], Status: 127, Stderr: err.Error()}
	case errors.Is(err, os.ErrPermission):
		return &ExitError{Program: c.Args[0], Status: 126, Stderr: err.Error()}
	}
	return fmt.Errorf("run %s: %w", c.Args[0], err)
}

// feedLocal sends in to the program. Were it the program's Stdin, Run would wait
// for a Read that blocks after the program has ended.
func feedLocal(cmd *exec.Cmd, in io.Reader) error {
	if in == nil {
		return nil
	}
	w, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(w, in) // fails when the program has ended
		_ = w.Close()
	}()
	return nil
}

func exitError(c Command, exit *exec.ExitError, last string) error {
	e := &ExitError{Program: c.Args[0], Status: exit.ExitCode(), Stderr: last}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		e.Signal = signalName(s.Signal())
	}
	return e
}

// signalName returns the name that SSH (RFC 4254, 6.10) has for a signal, or
// its number.
func signalName(s syscall.Signal) string {
	names := map[syscall.Signal]string{
		syscall.SIGABRT: "ABRT", syscall.SIGALRM: "ALRM", syscall.SIGFPE: "FPE", syscall.SIGHUP: "HUP",
		syscall.SIGILL: "ILL", syscall.SIGINT: "INT", syscall.SIGKILL: "KILL", syscall.SIGPIPE: "PIPE",
		syscall.SIGQUIT: "QUIT", syscall.SIGSEGV: "SEGV", syscall.SIGTERM: "TERM",
	}
	if n, ok := names[s]; ok {
		return n
	}
	return fmt.Sprint(int(s))
}

// Dial connects from this machine.
func (l *Local) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// Close does nothing: programs that run go on until their context ends.
func (l *Local) Close() error { return nil }
