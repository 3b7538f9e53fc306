package hosttest

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/clusterimage/sealer/cluster/host"
)

// A Program stands in for a command of the machine. Its result is the exit
// status. When the command is killed, or its connection ends, p.Context() is
// done: a program that waits has to watch it.
type Program func(p *Process) int

// A Machine is a machine to connect to. Set its fields before Start; the
// methods may be called at any time, also from several goroutines.
type Machine struct {
	Name string
	// Listen is an address of the loopback; empty is 127.0.0.1.
	Listen string
	// User may log in; empty is root.
	User string
	// Password lets the user in; empty is none.
	Password string
	// Interactive asks for the password by keyboard-interactive alone.
	Interactive bool
	// AuthorizedKeys let the user in, in the format of authorized_keys.
	AuthorizedKeys []string
	// Sudo says how the user becomes root: "", there is no sudo; "free";
	// "password", which is SudoPassword, else Password.
	Sudo         string
	SudoPassword string
	// HostCertificate, when set, makes the certificate that the machine shows
	// instead of its plain key.
	HostCertificate func(key ssh.PublicKey) *ssh.Certificate
	// Programs are found by Args[0], then by the last element of its path.
	// id, sudo, kill, cat and true are there in any case.
	Programs map[string]Program
	// Default runs for every other command; nil is status 127.
	Default Program

	listener net.Listener
	mu       sync.Mutex
	key      ssh.Signer
	fault    Fault
	conns    map[net.Conn]bool
	accepted int
	commands [][]string
	lines    []string
	groups   map[int]*Process
	lastPID  int
	files    map[string][]byte
	served   sync.WaitGroup
}

// Start makes the machine listen until the test ends.
func (m *Machine) Start(t testing.TB) *Machine {
	t.Helper()
	if err := m.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Stop)
	return m
}

// Open makes the machine listen until Stop.
func (m *Machine) Open() error {
	m.conns, m.groups, m.files = map[net.Conn]bool{}, map[int]*Process{}, map[string][]byte{}
	if err := m.Rekey(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cmp.Or(m.Listen, "127.0.0.1"), "0"))
	if err != nil {
		return err
	}
	m.listener = l
	m.served.Go(m.accept)
	return nil
}

// Addr returns the address and port of the machine's sshd.
func (m *Machine) Addr() string { return m.listener.Addr().String() }

// Stop ends the machine and all connections to it.
func (m *Machine) Stop() {
	m.listener.Close()
	m.Cut()
	m.served.Wait()
}

// Cut ends all connections to the machine, as a cable that is pulled does.
func (m *Machine) Cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.conns {
		c.Close()
	}
}

// Rekey gives the machine another host key, as a new installation does.
func (m *Machine) Rekey() error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key = signer
	return nil
}

// Target says how to reach the machine as its user with its password.
func (m *Machine) Target() host.Target {
	addr := m.listener.Addr().(*net.TCPAddr)
	return host.Target{Name: m.Name, Address: addr.IP.String(), Port: addr.Port, User: m.User, Password: m.Password}
}

// KnownHosts returns the line of known_hosts for the machine's key.
func (m *Machine) KnownHosts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return knownhosts.Line([]string{m.listener.Addr().String()}, m.key.PublicKey()) + "\n"
}

// Fingerprint returns the fingerprint of the machine's key.
func (m *Machine) Fingerprint() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return ssh.FingerprintSHA256(m.key.PublicKey())
}

// Connections returns how many connections were accepted.
func (m *Machine) Connections() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.accepted
}

// Commands returns the arguments of the programs that were run, in order.
func (m *Machine) Commands() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// Lines returns the command lines as they were received. Another user of a real
// machine could see them, so no secret may be in them.
func (m *Machine) Lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lines)
}

// WriteFile and ReadFile are the machine's memory.
func (m *Machine) WriteFile(name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = slices.Clone(content)
}

// ReadFile returns a file that WriteFile has written.
func (m *Machine) ReadFile(name string) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.files[name]
	return slices.Clone(b), ok
}

// run runs the program of p and returns its status.
func (m *Machine) run(p *Process) int {
	m.mu.Lock()
	m.commands = append(m.commands, p.Args)
	m.mu.Unlock()
	for _, name := range []string{p.Args[0], path.Base(p.Args[0])} {
		if f := m.Programs[name]; f != nil {
			return f(p)
		}
	}
	switch p.Args[0] {
	case "true":
		return 0
	case "id":
		return m.id(p)
	case "cat":
		if _, err := io.Copy(p.Stdout, p.Stdin); err != nil {
			return 1
		}
		return 0
	case "kill":
		return m.kill(p)
	case "sudo":
		return m.sudo(p)
	}
	if m.Default != nil {
		return m.Default(p)
	}
	io.WriteString(p.Stderr, "sh: "+p.Args[0]+": not found\n")
	return 127
}

func (m *Machine) id(p *Process) int {
	uid := "1000\n"
	if p.Root {
		uid = "0\n"
	}
	io.WriteString(p.Stdout, uid)
	return 0
}

// kill takes kill -s SIGNAL -- -GROUP.
func (m *Machine) kill(p *Process) int {
	group, err := strconv.Atoi(p.Args[len(p.Args)-1])
	m.mu.Lock()
	target := m.groups[-group]
	m.mu.Unlock()
	if err != nil || target == nil || target.Root && !p.Root {
		return 1
	}
	target.end(p.Args[2])
	return 0
}

var errNoLine = errors.New("no line")

// readLine reads a line byte by byte, as sudo and the shell's read do.
func readLine(r io.Reader) (string, error) {
	var line []byte
	b := make([]byte, 1)
	for len(line) < 4096 {
		if _, err := io.ReadFull(r, b); err != nil {
			return string(line), errNoLine
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", errNoLine
}

// sudo takes the two forms that package host uses.
func (m *Machine) sudo(p *Process) int {
	at := slices.Index(p.Args, "--")
	if m.Sudo == "" || at < 0 {
		io.WriteString(p.Stderr, "sh: sudo: not found\n")
		return 127
	}
	want := m.SudoPassword
	if want == "" {
		want = m.Password
	}
	if m.Sudo == "password" {
		if slices.Contains(p.Args[:at], "-n") {
			io.WriteString(p.Stderr, "sudo: a password is required\n")
			return 1
		}
		if got, err := readLine(p.Stdin); err != nil || got != want {
			io.WriteString(p.Stderr, "sudo: 1 incorrect password attempt\n")
			return 1
		}
	}
	p.Root = true
	return m.script(p, p.Args[len(p.Args)-1])
}
