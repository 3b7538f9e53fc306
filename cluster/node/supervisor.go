package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Supervisor keeps services running on a machine without systemd: for each a
// process of sealer in a session of its own, which starts the program of the
// unit's file again whenever it ends. Dir has, for each unit, UNIT.pid (the
// supervisor's process) and UNIT.log.
type Supervisor struct {
	Dir     string // for this process
	Root    string // of the machine
	Program string // sealer
}

func (s Supervisor) file(unit, suffix string) string {
	return filepath.Join(s.Dir, unit+suffix)
}

// Install implements Units: the unit's file is read when the unit starts.
func (s Supervisor) Install(context.Context, string) error { return os.MkdirAll(s.Dir, 0o755) }

// Start implements Units. A boot does not start the unit: nothing is there that
// would; the same sealer command does.
func (s Supervisor) Start(ctx context.Context, unit string, restart bool) error {
	st, err := s.State(ctx, unit)
	if err != nil || st.Active && !restart {
		return err
	}
	if err := s.Stop(ctx, unit); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	log, err := os.OpenFile(s.file(unit, ".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	cmd := exec.Command(s.Program, "node", "supervise", "--dir", s.Dir, "--machine", s.Root, unit)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	ownSession(cmd)
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	go func() { _ = cmd.Wait() }() // it outlives this process; a dead one leaves no zombie
	for range 100 {
		if st, err := s.State(ctx, unit); err != nil || st.Active {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("unit %s: %w", unit, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("unit %s: it did not start", unit)
}

// Stop implements Units. The supervisor ends the program and all its children
// that are in its session.
func (s Supervisor) Stop(ctx context.Context, unit string) error {
	pid, alive := s.pid(unit)
	if alive {
		if err := terminate(pid); err != nil {
			return fmt.Errorf("stop %s: %w", unit, err)
		}
		for i := 0; ; i++ {
			if _, alive = s.pid(unit); !alive {
				break
			}
			if i == 300 {
				return fmt.Errorf("stop %s: process %d does not end", unit, pid)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("stop %s: %w", unit, context.Cause(ctx))
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
	if err := os.Remove(s.file(unit, ".pid")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stop %s: %w", unit, err)
	}
	return nil
}

// pid is the supervisor's process, which holds a lock on its file for as long
// as it lives: a number that another process has got since is not taken for it.
func (s Supervisor) pid(unit string) (int, bool) {
	f, err := os.Open(s.file(unit, ".pid"))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if flock(f, false) == nil {
		return 0, false
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid, err == nil && pid > 1
}

// State implements Units.
func (s Supervisor) State(_ context.Context, unit string) (UnitState, error) {
	_, alive := s.pid(unit)
	return UnitState{Active: alive, Enabled: alive}, nil
}

// Tail implements Units.
func (s Supervisor) Tail(_ context.Context, unit string, n int) (string, error) {
	b, err := os.ReadFile(s.file(unit, ".log"))
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n"), nil
}

// restartDelay is the pause before a program that ended is started again.
const restartDelay = time.Second

// Supervise runs the unit's program until ctx ends, again and again. It is the
// process that Start begins.
func (s Supervisor) Supervise(ctx context.Context, unit string) (err error) {
	f, err := os.OpenFile(s.file(unit, ".pid"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("supervise %s: %w", unit, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := flock(f, true); err != nil {
		return fmt.Errorf("supervise %s: it runs already: %w", unit, err)
	}
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("supervise %s: %w", unit, err)
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		return fmt.Errorf("supervise %s: %w", unit, err)
	}
	for ctx.Err() == nil {
		svc, err := readService(s.Root, unit)
		if err == nil {
			err = s.once(ctx, svc)
		}
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintf(os.Stderr, "sealer: %s ended: %v; it starts again in %v\n", unit, err, restartDelay)
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
	return nil
}

// once runs the program once. Its own children are left to it, as the container
// runtime's shims outlive the runtime.
func (s Supervisor) once(ctx context.Context, svc service) error {
	m := Machine{Root: s.Root}
	cmd := exec.CommandContext(ctx, m.lookup(svc.args[0]), svc.args[1:]...)
	cmd.Env = append(os.Environ(), svc.env...)
	cmd.Dir = "/"
	if s.Root != "/" {
		cmd.Env = append(cmd.Env, "SEALER_NODE_ROOT="+s.Root)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ownGroup(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd.Run()
}
