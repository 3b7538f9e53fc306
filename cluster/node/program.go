package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A program is a command to run on the machine.
type program struct {
	Args   []string
	Env    []string // "NAME=VALUE", on top of the machine's own
	Dir    string   // a path for this process
	Stdin  io.Reader
	Stdout io.Writer // beside the log; nil for the log alone
	Quiet  bool      // do not log stdout
	Step   string    // the ID of the step that it belongs to; "" for an undo
}

// maxTail is how many lines of a program's output an error repeats.
const maxTail = 20

// run runs p in a process group of its own, logs its lines and returns an error
// with the last of them when it fails. When ctx ends, the group is told to end,
// and killed after ten seconds.
func (w *Work) run(ctx context.Context, p program) error {
	p.Step = w.Step.ID
	return w.Machine.run(ctx, p, w.Log)
}

func (m *Machine) run(ctx context.Context, p program, log func(string)) error {
	l := &lines{log: log}
	cmd := exec.CommandContext(ctx, m.lookup(p.Args[0]), p.Args[1:]...)
	cmd.Env = append(append(os.Environ(), p.Env...), m.mark(p.Step))
	if m.Root != "/" {
		cmd.Env = append(cmd.Env, "SEALER_NODE_ROOT="+m.Root)
	}
	cmd.Dir, cmd.Stdin = p.Dir, p.Stdin
	cmd.Stdout, cmd.Stderr = l, l
	switch {
	case p.Stdout != nil && p.Quiet:
		cmd.Stdout = p.Stdout
	case p.Stdout != nil:
		cmd.Stdout = io.MultiWriter(p.Stdout, l)
	case p.Quiet:
		cmd.Stdout = io.Discard
	}
	ownGroup(cmd)
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	l.flush()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run %s: %w", p.Args[0], context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("run %s: the machine has no such program and the image brings none", p.Args[0])
	}
	if tail := l.tail(); tail != "" {
		return fmt.Errorf("run %s: %w: %s", p.Args[0], err, tail)
	}
	return fmt.Errorf("run %s: %w", p.Args[0], err)
}

// lookup finds a program below the machine's root before the PATH is asked.
func (m *Machine) lookup(name string) string {
	if name == "/bin/sh" {
		return name
	}
	if strings.Contains(name, "/") {
		return m.Path(name)
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if info, err := os.Stat(m.Path(dir + "/" + name)); err == nil && info.Mode()&0o111 != 0 {
			return m.Path(dir + "/" + name)
		}
	}
	return name
}

// lines passes a program's output on, line by line, and keeps the last lines
// for the error.
type lines struct {
	log func(string)

	mu   sync.Mutex
	part []byte
	last []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, p...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			if len(l.part) > bufio.MaxScanTokenSize {
				l.emit(string(l.part))
				l.part = nil
			}
			return len(p), nil
		}
		l.emit(string(line))
		l.part = append([]byte(nil), rest...)
	}
}

func (l *lines) emit(line string) {
	line = strings.TrimRight(line, "\r")
	if l.log != nil {
		l.log(line)
	}
	if strings.TrimSpace(line) == "" {
		return
	}
	if l.last = append(l.last, line); len(l.last) > maxTail {
		l.last = l.last[1:]
	}
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.emit(string(l.part))
		l.part = nil
	}
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, " | ")
}
