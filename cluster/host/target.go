package host

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"strconv"
	"time"
)

// A Target is a machine to be reached over SSH, and how.
type Target struct {
	// Name stands for the host in messages; empty is Address.
	Name string
	// Address is an IP address or a name, without the port.
	Address string
	// Port is sshd's; 0 is 22.
	Port int
	// User logs in; empty is root.
	User string
	// Password serves the methods password and keyboard-interactive, and sudo
	// unless SudoPassword is set.
	Password string
	// SudoPassword is given to sudo where it asks.
	SudoPassword string
	// Keys are private key files. Without any, and without a password, the
	// agent's keys and the usual files in ~/.ssh are tried.
	Keys []string
	// Passphrase opens encrypted Keys.
	Passphrase string
	// NoAgent leaves the agent's keys out.
	NoAgent bool
	// Jump are the hosts to go through, the nearest first. Their settings are in
	// their own fields; the fields of the Target do not apply to them.
	Jump []Target
}

func (t Target) name() string { return cmp.Or(t.Name, t.Address) }
func (t Target) user() string { return cmp.Or(t.User, "root") }

// addr returns host:port.
func (t Target) addr() string {
	return net.JoinHostPort(t.Address, strconv.Itoa(cmp.Or(t.Port, 22)))
}

// label names the target in errors: the name, and the address where it differs.
func (t Target) label() string {
	if t.name() == t.Address {
		return t.addr()
	}
	return t.name() + " (" + t.addr() + ")"
}

// Options are how hosts are connected to.
type Options struct {
	// KnownHosts are files of known host keys, in the format of sshd(8); a new
	// key is added to the first. Nil is ~/.ssh/known_hosts, which need not exist.
	KnownHosts []string
	// AcceptNew takes the keys of hosts that no file knows, and writes them to
	// the first file. A key that differs from a known one is refused in any case.
	AcceptNew bool
	// Ask is asked once for all hosts whose key is not known; nil from it
	// accepts them all. A nil Ask refuses.
	Ask func(ctx context.Context, keys []UnknownKey) error
	// Agent is the socket of an SSH agent; empty is none.
	Agent string
	// Home is where .ssh is looked for; empty is the user's.
	Home string
	// Timeout bounds one attempt to connect, authentication included; 0 is 20 s.
	Timeout time.Duration
	// Attempts bounds how often a host that does not answer is tried; 0 is 3.
	// Refused keys and passwords are not tried again.
	Attempts int
	// KeepAlive is how often a silent connection is asked whether it lives;
	// three questions without an answer end it. 0 is 15 s.
	KeepAlive time.Duration
	// Parallel bounds how many hosts are connected to at once; 0 is 64.
	Parallel int
	// Log is told of attempts; nil discards.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Timeout = cmp.Or(o.Timeout, 20*time.Second)
	o.Attempts = cmp.Or(o.Attempts, 3)
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	o.Parallel = cmp.Or(o.Parallel, 64)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
