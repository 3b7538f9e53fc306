package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// maxSessions bounds the programs that run at once over one connection: sshd
// allows ten (MaxSessions), and two stay free for ending others.
const maxSessions = 8

// SSH is a host that is reached over SSH, over one connection.
type SSH struct {
	target   Target
	client   *ssh.Client
	sessions chan struct{}
	done     chan struct{} // closed when the connection has ended

	mu   sync.Mutex
	root root // found at the first command that needs it
}

var _ Host = (*SSH)(nil)

func newSSH(t Target, client *ssh.Client, every time.Duration) *SSH {
	h := &SSH{target: t, client: client, sessions: make(chan struct{}, maxSessions), done: make(chan struct{})}
	go func() {
		_ = client.Wait() // why it ended, the commands that it carried say
		close(h.done)
	}()
	go h.keepAlive(every)
	return h
}

// keepAlive ends a connection that does not answer: else a cable that is cut
// would be noticed after hours.
func (h *SSH) keepAlive(every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	answers := make(chan error, 1)
	asked, silent := false, 0
	for {
		select {
		case <-h.done:
			return
		case <-answers:
			asked, silent = false, 0
		case <-ticks.C:
			if silent++; silent > 3 {
				h.client.Close()
				return
			}
			if !asked {
				asked = true
				go func() {
					_, _, err := h.client.SendRequest("keepalive@openssh.com", true, nil)
					answers <- err
				}()
			}
		}
	}
}

func (h *SSH) alive() bool {
	select {
	case <-h.done:
		return false
	default:
		return true
	}
}

// Name returns the name of the host in messages.
func (h *SSH) Name() string { return h.target.name() }

// Done is closed when the connection has ended.
func (h *SSH) Done() <-chan struct{} { return h.done }

// Close ends the connection.
func (h *SSH) Close() error {
	if err := h.client.Close(); err != nil && h.alive() {
		return fmt.Errorf("disconnect %s: %w", h.target.label(), err)
	}
	return nil
}

// Dial connects through the host.
func (h *SSH) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := h.client.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dial %s from %s: %w", address, h.target.label(), err)
	}
	return c, nil
}

// Run starts a program on the host.
func (h *SSH) Run(ctx context.Context, c Command) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.AsUser {
		return h.run(ctx, c)
	}
	r, err := h.becomes(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", h.target.label(), err)
	}
	return r.explain(c, h.run(ctx, r.become(c, h.sudoPassword())))
}

func (h *SSH) sudoPassword() string {
	if h.target.SudoPassword != "" {
		return h.target.SudoPassword
	}
	return h.target.Password
}

func (h *SSH) becomes(ctx context.Context) (root, error) {
	if h.target.user() == "root" {
		return rootAlready, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.root != rootUnknown {
		return h.root, nil
	}
	r, err := findRoot(ctx, h.run, h.target.user(), h.sudoPassword())
	h.root = r
	return r, err
}

// pidMark stands before the process id that every command says first on
// stderr: with it a command can be ended, which closing its streams does not do.
const pidMark = "\x01sealer-pid "

// run runs c as the user of the connection, in a process group of its own.
func (h *SSH) run(ctx context.Context, c Command) error {
	select {
	case h.sessions <- struct{}{}:
		defer func() { <-h.sessions }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s, err := h.session(ctx)
	if err != nil {
		return fmt.Errorf("run %s on %s: %w", c.Args[0], h.target.label(), lost(h, err))
	}
	defer s.Close()
	last := &tail{}
	pid := &pidFilter{to: c.stderr(last), known: make(chan struct{})}
	s.Stdout, s.Stderr = c.Stdout, pid
	if err := feed(s, c.Stdin); err != nil {
		return fmt.Errorf("run %s on %s: %w", c.Args[0], h.target.label(), lost(h, err))
	}
	line := "exec sh -c " + quote(`echo "`+pidMark+`$$" >&2; `+c.script())
	if err := s.Start(line); err != nil {
		return fmt.Errorf("run %s on %s: %w", c.Args[0], h.target.label(), lost(h, err))
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Wait() }()
	select {
	case err = <-ended:
		pid.flush()
	case <-ctx.Done():
		h.end(ctx, s, pid, ended)
		return context.Cause(ctx)
	}
	return h.outcome(c, err, last)
}

// sessionWait is the longest pause before a refused session is asked for again:
// about five seconds in all.
const sessionWait = 2 * time.Second

// session opens a session. An sshd that allows few of them (MaxSessions) refuses
// one while the session before is still ending: session waits for that.
func (h *SSH) session(ctx context.Context) (*ssh.Session, error) {
	for wait := 20 * time.Millisecond; ; wait *= 2 {
		s, err := h.client.NewSession()
		var refused *ssh.OpenChannelError
		if !errors.As(err, &refused) {
			return s, err
		}
		if wait > sessionWait {
			return nil, fmt.Errorf("its sshd opens no further session (%s): raise MaxSessions in its sshd_config: %w", refused.Message, err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-h.done:
			return nil, err
		}
	}
}

// feed sends in to the program. It does not wait: a program may end before it
// has read all.
func feed(s *ssh.Session, in io.Reader) error {
	if in == nil {
		return nil
	}
	w, err := s.StdinPipe()
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(w, in) // fails when the program has ended
		_ = w.Close()
	}()
	return nil
}

// end tells the program and its children to end, then makes them.
func (h *SSH) end(ctx context.Context, s *ssh.Session, pid *pidFilter, ended <-chan error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 4*killGrace)
	defer cancel()
	select {
	case <-pid.known:
	case <-ended:
		return
	case <-time.After(killGrace): // a host that never told it
	}
	for _, signal := range []string{"TERM", "KILL"} {
		if id := pid.id(); id > 0 {
			// An error means that the group has ended, or the connection.
			_ = h.signal(ctx, signal, id)
		}
		select {
		case <-ended:
			return
		case <-h.done:
			return
		case <-time.After(killGrace):
		}
	}
}

// signal sends a signal to a process group, as root where the user can be.
func (h *SSH) signal(ctx context.Context, signal string, group int) error {
	h.mu.Lock()
	r := h.root
	h.mu.Unlock()
	kill := Command{Args: []string{"kill", "-s", signal, "--", "-" + strconv.Itoa(group)}}
	return h.runBeside(ctx, r.become(kill, h.sudoPassword()))
}

// runBeside runs a short command in one of the sessions that stay free for it.
func (h *SSH) runBeside(ctx context.Context, c Command) error {
	s, err := h.client.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	s.Stdin = c.Stdin
	return s.Run("exec sh -c " + quote(c.script()))
}

// outcome words how a program ended.
func (h *SSH) outcome(c Command, err error, last *tail) error {
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		e := &ExitError{Program: c.Args[0], Status: exit.ExitStatus(), Signal: exit.Signal(), Stderr: last.String()}
		if e.Signal != "" {
			e.Status = -1
		}
		return e
	case errors.As(err, &missing):
		return fmt.Errorf("run %s on %s: the connection was lost: how the program ended is not known", c.Args[0], h.target.label())
	}
	return fmt.Errorf("run %s on %s: %w", c.Args[0], h.target.label(), lost(h, err))
}

// lost says that the connection has ended, if it has.
func lost(h *SSH, err error) error {
	if h.alive() && !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("the connection was lost: %w", err)
}

// A pidFilter takes the line of pidMark out of a program's stderr.
type pidFilter struct {
	to    io.Writer
	known chan struct{} // closed when the line was found

	mu    sync.Mutex
	begun []byte // stderr up to the end of that line
	found bool
	pid   int
}

func (p *pidFilter) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found {
		return p.to.Write(b)
	}
	p.begun = append(p.begun, b...)
	before, rest, ok := bytes.Cut(p.begun, []byte(pidMark))
	id, after, whole := bytes.Cut(rest, []byte("\n"))
	if !ok || !whole {
		if len(p.begun) > 64<<10 { // a host that says much else, and never this
			p.found = true
			_, err := p.to.Write(p.begun)
			return len(b), err
		}
		return len(b), nil
	}
	p.found = true
	p.pid, _ = strconv.Atoi(string(id))
	close(p.known)
	_, err := p.to.Write(append(before, after...))
	p.begun = nil
	return len(b), err
}

// flush passes on the output of a program that ended before its process id was
// found.
func (p *pidFilter) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.found && len(p.begun) > 0 {
		_, _ = p.to.Write(p.begun) // the program has ended; its status counts
	}
}

// id returns the process group of the program; 0 until it is known.
func (p *pidFilter) id() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}
