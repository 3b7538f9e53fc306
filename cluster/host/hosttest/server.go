package hosttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"

	"golang.org/x/crypto/ssh"
)

func (m *Machine) accept() {
	for {
		c, err := m.listener.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		m.accepted++
		fault := m.fault
		refuse := fault.Refuse || fault.RefuseFirst > 0
		m.fault.RefuseFirst = max(m.fault.RefuseFirst-1, 0)
		if !refuse {
			m.conns[c] = true
		}
		m.mu.Unlock()
		if refuse {
			c.Close()
			continue
		}
		m.served.Go(func() {
			defer func() {
				c.Close()
				m.mu.Lock()
				delete(m.conns, c)
				m.mu.Unlock()
			}()
			if fault.Hang {
				io.Copy(io.Discard, c)
				return
			}
			m.serve(&faultyConn{Conn: c, fault: fault})
		})
	}
}

var errRefused = errors.New("refused")

// config is the SSH server of the machine, with the host key of this moment.
func (m *Machine) config() (*ssh.ServerConfig, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	right := func(c ssh.ConnMetadata, password string) error {
		user := m.User
		if user == "" {
			user = "root"
		}
		if m.Password == "" || c.User() != user || password != m.Password {
			return errRefused
		}
		return nil
	}
	conf := &ssh.ServerConfig{MaxAuthTries: 6}
	if m.Interactive {
		conf.KeyboardInteractiveCallback = func(c ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{"Password: "}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, errRefused
			}
			return nil, right(c, answers[0])
		}
	} else if m.Password != "" {
		conf.PasswordCallback = func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return nil, right(c, string(password))
		}
	}
	if len(m.AuthorizedKeys) > 0 {
		conf.PublicKeyCallback = m.authorized
	}
	key := m.key
	if m.HostCertificate != nil {
		cert, err := ssh.NewCertSigner(m.HostCertificate(key.PublicKey()), key)
		if err != nil {
			return nil, err
		}
		key = cert
	}
	conf.AddHostKey(key)
	return conf, nil
}

func (m *Machine) authorized(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	for _, line := range m.AuthorizedKeys {
		k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err == nil && bytes.Equal(k.Marshal(), key.Marshal()) {
			return nil, nil
		}
	}
	return nil, errRefused
}

func (m *Machine) serve(c net.Conn) {
	conf, err := m.config()
	if err != nil {
		return
	}
	conn, channels, requests, err := ssh.NewServerConn(c, conf)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer conn.Close()
	wg.Go(func() {
		for r := range requests {
			if r.WantReply {
				r.Reply(false, nil) // as sshd answers to a keepalive
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for n := range channels {
		switch n.ChannelType() {
		case "session":
			wg.Go(func() { m.session(ctx, conn.User(), n) })
		case "direct-tcpip":
			wg.Go(func() { forward(ctx, n) })
		default:
			n.Reject(ssh.UnknownChannelType, "no such channel")
		}
	}
}

// session runs one command.
func (m *Machine) session(ctx context.Context, user string, n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		var line struct{ Text string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &line) != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		go ssh.DiscardRequests(requests)
		m.exec(ctx, user, ch, line.Text)
		return
	}
}

func (m *Machine) exec(ctx context.Context, user string, ch ssh.Channel, line string) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &Process{
		Machine: m, Root: user == "root", Stdin: ch, Stdout: ch, Stderr: ch.Stderr(),
		ctx: ctx, cancel: cancel,
	}
	m.mu.Lock()
	m.lastPID++
	p.PID = 100 + m.lastPID
	m.groups[p.PID] = p
	m.lines = append(m.lines, line)
	m.mu.Unlock()
	words, _ := split(line) // exec sh -c TEXT
	status := 127
	if len(words) == 4 {
		status = m.script(p, words[3])
	}
	m.mu.Lock()
	delete(m.groups, p.PID)
	m.mu.Unlock()
	var signal killed
	if errors.As(context.Cause(ctx), &signal) {
		ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal     string
			CoreDumped bool
			Message    string
			Language   string
		}{Signal: string(signal)}))
		return
	}
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

// forward connects through the machine (RFC 4254, 7.2).
func forward(ctx context.Context, n ssh.NewChannel) {
	var to struct {
		Host   string
		Port   uint32
		Origin string
		From   uint32
	}
	if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil {
		n.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		n.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer c.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	go ssh.DiscardRequests(requests)
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	go func() {
		io.Copy(c, ch)
		c.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(ch, c)
}
