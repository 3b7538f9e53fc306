package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
)

// A Dialer connects to hosts over SSH. All its connections share the known
// keys, the agent and the connections to jump hosts. It is safe for concurrent
// use.
type Dialer struct {
	opts  Options
	home  string
	known *known

	agentOnce sync.Once
	agentConn io.Closer
	agentKeys []ssh.Signer
	agentErr  error

	mu    sync.Mutex
	jumps map[string]*jump // by the chain's users and addresses
}

// jump is a connection to a jump host; the first that wants it makes it.
type jump struct {
	sync.Mutex
	host *SSH
}

// NewDialer reads the known hosts. Close ends the connections to jump hosts.
func NewDialer(o Options) (*Dialer, error) {
	home := o.Home
	if home == "" {
		var err error
		if home, err = os.UserHomeDir(); err != nil {
			return nil, fmt.Errorf("find ~/.ssh: %w", err)
		}
	}
	k, err := openKnown(o.KnownHosts, home, o.AcceptNew || o.Ask != nil)
	if err != nil {
		return nil, err
	}
	return &Dialer{opts: o.withDefaults(), home: home, known: k, jumps: map[string]*jump{}}, nil
}

// Close ends the connections to jump hosts, and so every connection that goes
// through one.
func (d *Dialer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, j := range d.jumps {
		if j.host != nil {
			_ = j.host.Close() // it is of no use any more
		}
	}
	if d.agentConn != nil {
		return d.agentConn.Close()
	}
	return nil
}

// ConnectAll connects to all targets at once. Options.Ask is asked once about
// all hosts with an unknown key, and once more about the hosts behind an
// unknown jump host. Both results are in the order of targets: where the error
// is not nil the host is nil. The caller closes the hosts.
func (d *Dialer) ConnectAll(ctx context.Context, targets []Target) ([]*SSH, []error) {
	hosts, errs := make([]*SSH, len(targets)), make([]error, len(targets))
	pending := make([]int, len(targets))
	for i := range targets {
		pending[i] = i
	}
	for len(pending) > 0 {
		var g errgroup.Group
		g.SetLimit(d.opts.Parallel)
		for _, i := range pending {
			g.Go(func() error {
				hosts[i], errs[i] = d.Connect(ctx, targets[i])
				return nil
			})
		}
		_ = g.Wait()
		again, unknown := unknownKeys(pending, errs)
		if len(unknown) == 0 || d.opts.Ask == nil {
			break
		}
		if err := d.askAll(ctx, unknown); err != nil {
			for _, i := range again {
				errs[i] = fmt.Errorf("%w: %w", errs[i], err)
			}
			break
		}
		pending = again
	}
	return hosts, errs
}

// unknownKeys returns which of the targets failed for an unknown key, and the
// keys, one for each address.
func unknownKeys(pending []int, errs []error) (again []int, keys []UnknownKey) {
	seen := map[string]bool{}
	for _, i := range pending {
		var unknown *UnknownKeyError
		if !errors.As(errs[i], &unknown) {
			continue
		}
		again = append(again, i)
		if !seen[unknown.Key.Address] {
			seen[unknown.Key.Address] = true
			keys = append(keys, unknown.Key)
		}
	}
	return again, keys
}

func (d *Dialer) askAll(ctx context.Context, keys []UnknownKey) error {
	if err := d.opts.Ask(ctx, keys); err != nil {
		return err
	}
	for _, k := range keys {
		if err := d.known.accept(k); err != nil {
			return err
		}
	}
	return nil
}

// Connect connects to one target. Its error is or wraps an *UnknownKeyError, a
// *ChangedKeyError, an *AuthError or an *UnreachableError.
func (d *Dialer) Connect(ctx context.Context, t Target) (*SSH, error) {
	via, err := d.through(ctx, t.Jump)
	if err != nil {
		return nil, fmt.Errorf("connect %s: %w", t.label(), err)
	}
	methods, notes, err := d.authentication(t)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		client, err := d.attempt(ctx, t, via, methods)
		if err == nil {
			return newSSH(t, client, d.opts.KeepAlive), nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if attempt == d.opts.Attempts || !transient(err) {
			return nil, refused(t, notes, err)
		}
		d.opts.Log.Debug("connect", "host", t.label(), "attempt", attempt, "error", err)
		// sshd drops connections at random when many begin at once (MaxStartups).
		pause := time.Duration(attempt)*500*time.Millisecond + rand.N(500*time.Millisecond)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// through returns the connection to the last of a chain of jump hosts; nil for
// an empty chain. The connection stays until the Dialer is closed.
func (d *Dialer) through(ctx context.Context, chain []Target) (*SSH, error) {
	if len(chain) == 0 {
		return nil, nil
	}
	key := ""
	for _, t := range chain {
		key += t.user() + "@" + t.addr() + ","
	}
	d.mu.Lock()
	j := d.jumps[key]
	if j == nil {
		j = &jump{}
		d.jumps[key] = j
	}
	d.mu.Unlock()
	j.Lock()
	defer j.Unlock()
	if j.host != nil && j.host.alive() {
		return j.host, nil
	}
	last := chain[len(chain)-1]
	last.Jump = chain[:len(chain)-1]
	h, err := d.Connect(ctx, last)
	if err != nil {
		return nil, fmt.Errorf("jump host: %w", err)
	}
	j.host = h
	return h, nil
}

// attempt connects once.
func (d *Dialer) attempt(ctx context.Context, t Target, via *SSH, methods []ssh.AuthMethod) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, d.opts.Timeout, fmt.Errorf("no answer within %v: %w", d.opts.Timeout, os.ErrDeadlineExceeded))
	defer cancel()
	conn, err := dialVia(ctx, via, t.addr())
	if err != nil {
		return nil, unlessEnded(ctx, err)
	}
	// A deadline does nothing on a connection through a jump host; closing does.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var keyErr error
	c, chans, reqs, err := ssh.NewClientConn(conn, t.addr(), &ssh.ClientConfig{
		User: t.user(),
		Auth: methods,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			keyErr = d.verify(t, key)
			return keyErr
		},
		HostKeyAlgorithms: d.known.algorithms(t),
		ClientVersion:     "SSH-2.0-sealer",
	})
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		if keyErr != nil {
			return nil, keyErr
		}
		return nil, unlessEnded(ctx, err)
	}
	return ssh.NewClient(c, chans, reqs), nil
}

// verify checks a host's key; with AcceptNew an unknown one is accepted.
func (d *Dialer) verify(t Target, key ssh.PublicKey) error {
	err := d.known.verify(t, key)
	var unknown *UnknownKeyError
	if !d.opts.AcceptNew || !errors.As(err, &unknown) {
		return err
	}
	if err := d.known.accept(unknown.Key); err != nil {
		return err
	}
	return d.known.verify(t, key)
}

func dialVia(ctx context.Context, via *SSH, addr string) (net.Conn, error) {
	if via != nil {
		return via.Dial(ctx, "tcp", addr)
	}
	var n net.Dialer
	return n.DialContext(ctx, "tcp", addr)
}

// unlessEnded returns the cause of ctx if it has ended, else err. After the
// end, err would say no more than that a connection was closed.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// transient says whether another attempt may go better.
func transient(err error) bool {
	for _, cause := range []error{
		os.ErrDeadlineExceeded, io.EOF, io.ErrUnexpectedEOF,
		syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ETIMEDOUT, syscall.EPIPE,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// tried finds the methods in the library's only error without a type.
var tried = regexp.MustCompile(`unable to authenticate, attempted methods \[(.*?)\]`)

// refused words the last error of a target.
func refused(t Target, notes []string, err error) error {
	var unknown *UnknownKeyError
	var changed *ChangedKeyError
	if errors.As(err, &unknown) || errors.As(err, &changed) {
		return fmt.Errorf("connect %s: %w", t.label(), err)
	}
	if m := tried.FindStringSubmatch(err.Error()); m != nil {
		return &AuthError{Target: t.label(), User: t.user(), Tried: m[1], Notes: notes}
	}
	return &UnreachableError{t.label(), err}
}

// An UnreachableError says that a host does not answer, or not as an SSH server.
type UnreachableError struct {
	Target string // name and address
	Err    error
}

func (e *UnreachableError) Error() string { return "connect " + e.Target + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }
