package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// A Host is a machine that programs run on. It is safe for concurrent use.
type Host interface {
	// Run starts a program, without a shell of the caller's words, and waits
	// for its end. Its error is an *ExitError when the program ended with a
	// status that is not 0 or by a signal, and the cause of ctx when ctx ended
	// first; the program is told to end then.
	Run(ctx context.Context, c Command) error
	// Dial connects to an address as that machine sees it. The network is
	// "tcp" or "unix".
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Close ends the connection, and with it all that runs over it.
	Close() error
}

// A Command is a program to run.
type Command struct {
	// Args are the program and its arguments. Args[0] is looked up there.
	Args []string
	// Env adds variables, "NAME=VALUE". Users of that machine can see them: no
	// secret belongs here.
	Env []string
	// Dir is the working directory; empty is the user's home over SSH, and the
	// present directory on this machine.
	Dir string
	// AsUser runs the program as the user that connected; without it the
	// program runs as root, through sudo where the user is not root.
	AsUser bool
	// Stdin is read until its end; nil is an empty one.
	Stdin io.Reader
	// Stdout and Stderr get the program's output as it is written; nil discards it.
	// An ExitError has the last lines of Stderr in any case.
	Stdout, Stderr io.Writer
}

// check refuses a command that no machine could run as it is meant.
func (c Command) check() error {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return errors.New("run: the command is empty")
	}
	for _, e := range c.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || !isName(name) {
			return fmt.Errorf("run %s: environment %q: want NAME=VALUE", c.Args[0], name)
		}
	}
	for _, s := range append(append([]string{c.Dir}, c.Args...), c.Env...) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("run %s: an argument holds a zero byte", c.Args[0])
		}
	}
	return nil
}

// isName says whether s can name an environment variable in a shell.
func isName(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || '9' < r) {
			return false
		}
	}
	return s != ""
}

// An ExitError says how a program ended that did not end with status 0.
type ExitError struct {
	Program string // Args[0] of the command
	Status  int    // its exit status; -1 when a signal ended it
	Signal  string // the signal's name without SIG, as "KILL"; empty without one
	Stderr  string // its last lines on stderr, at most 2 KiB
}

func (e *ExitError) Error() string {
	end := fmt.Sprintf("exit status %d", e.Status)
	if e.Signal != "" {
		end = "ended by SIG" + e.Signal
	}
	if last := strings.TrimSpace(e.Stderr); last != "" {
		end += ": " + strings.Join(strings.Fields(strings.ReplaceAll(last, "\n", " | ")), " ")
	}
	return fmt.Sprintf("run %s: %s", e.Program, end)
}

// maxTail bounds the part of stderr that an ExitError keeps, in bytes.
const maxTail = 2 << 10

// A tail is a writer that keeps the last maxTail bytes.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// String returns the end, from the beginning of a line where there is one.
func (t *tail) String() string {
	b := t.b
	if i := bytes.IndexByte(b, '\n'); len(b) == maxTail && i >= 0 {
		b = b[i+1:]
	}
	return string(b)
}

// stderr returns the writer for a program's stderr: the caller's, and t.
func (c Command) stderr(t *tail) io.Writer {
	if c.Stderr == nil {
		return t
	}
	return io.MultiWriter(c.Stderr, t)
}
