package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
)

// secret is the password of every machine: it must not be seen anywhere.
const secret = "s3cret-Pa55"

// dialer makes a Dialer with a home of its own that trusts the machines.
func dialer(t testing.TB, o host.Options, trusted ...*hosttest.Machine) *host.Dialer {
	t.Helper()
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	if trusted != nil {
		file := filepath.Join(t.TempDir(), "known_hosts")
		lines := ""
		for _, m := range trusted {
			lines += m.KnownHosts()
		}
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		o.KnownHosts = []string{file}
	}
	d, err := host.NewDialer(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func connect(t testing.TB, d *host.Dialer, target host.Target) *host.SSH {
	t.Helper()
	h, err := d.Connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// programs are what the tests' machines can run.
func programs() map[string]hosttest.Program {
	return map[string]hosttest.Program{
		"show": func(p *hosttest.Process) int {
			fmt.Fprintf(p.Stdout, "%q %q %q root=%v\n", p.Args, p.Env, p.Dir, p.Root)
			io.Copy(p.Stdout, p.Stdin)
			return 0
		},
		"fail": func(p *hosttest.Process) int {
			fmt.Fprint(p.Stderr, "first\nno space left\n")
			return 28
		},
		"wait": func(p *hosttest.Process) int {
			fmt.Fprint(p.Stdout, "started")
			<-p.Context().Done()
			return 0
		},
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Name: "n1", Password: secret, Programs: programs()}).Start(t)
	h := connect(t, dialer(t, host.Options{}, m), m.Target())
	var out, errOut bytes.Buffer
	err := h.Run(t.Context(), host.Command{
		Args: []string{"show", "a b", "it's", ""}, Env: []string{"K=v w"}, Dir: "/some dir",
		Stdin: strings.NewReader("input"), Stdout: &out,
	})
	want := `["show" "a b" "it's" ""] ["K=v w"] "/some dir" root=true` + "\ninput"
	if err != nil || out.String() != want {
		t.Errorf("%q, %v", out.String(), err)
	}
	err = h.Run(t.Context(), host.Command{Args: []string{"fail"}, Stderr: &errOut})
	var exit *host.ExitError
	if !errors.As(err, &exit) || exit.Status != 28 || exit.Program != "fail" || err.Error() != "run fail: exit status 28: first | no space left" {
		t.Errorf("%v", err)
	}
	if errOut.String() != "first\nno space left\n" {
		t.Errorf("stderr: %q", errOut.String())
	}
	if err := h.Run(t.Context(), host.Command{Args: []string{"none"}}); !errors.As(err, &exit) || exit.Status != 127 {
		t.Errorf("a missing program: %v", err)
	}
	if m.Connections() != 1 {
		t.Errorf("%d connections for three commands", m.Connections())
	}
}

func TestRunCancelKillsThere(t *testing.T) {
	t.Parallel()
	for _, sudo := range []string{"", "free", "password"} {
		t.Run("sudo "+sudo, func(t *testing.T) {
			t.Parallel()
			m := &hosttest.Machine{Password: secret, Programs: programs(), Sudo: sudo}
			if sudo != "" {
				m.User = "admin"
			}
			m.Start(t)
			h := connect(t, dialer(t, host.Options{}, m), m.Target())
			ctx, cancel := context.WithCancelCause(t.Context())
			stopped := errors.New("stopped by the test")
			err := h.Run(ctx, host.Command{Args: []string{"wait"}, Stdout: writerFunc(func([]byte) { cancel(stopped) })})
			if !errors.Is(err, stopped) {
				t.Error(err)
			}
			last := m.Commands()[len(m.Commands())-1]
			if last[0] != "kill" || last[2] != "TERM" {
				t.Errorf("the last command is %q of %q", last, m.Commands())
			}
		})
	}
}

func TestSudo(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sudo, password string
		want           string
	}{
		"free":           {sudo: "free", want: "root=true"},
		"password":       {sudo: "password", password: secret, want: "root=true"},
		"wrong password": {sudo: "password", password: "other", want: "user admin cannot become root: sudo: 1 incorrect password attempt"},
		"no sudo":        {want: "user admin cannot become root: there is no sudo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := (&hosttest.Machine{
				User: "admin", Password: secret, Programs: programs(), Sudo: tt.sudo, SudoPassword: secret,
			}).Start(t)
			target := m.Target()
			target.SudoPassword = tt.password
			h := connect(t, dialer(t, host.Options{}, m), target)
			var out bytes.Buffer
			for range 2 {
				out.Reset()
				err := h.Run(t.Context(), host.Command{Args: []string{"show", "x"}, Env: []string{"A=1"}, Dir: "/d", Stdin: strings.NewReader("input"), Stdout: &out})
				got := out.String() + fmt.Sprint(err)
				if !strings.Contains(got, tt.want) || err == nil && !strings.HasSuffix(out.String(), "\ninput") {
					t.Errorf("%s, want %s", got, tt.want)
				}
			}
			out.Reset()
			if err := h.Run(t.Context(), host.Command{Args: []string{"show"}, AsUser: true, Stdout: &out}); err != nil || !strings.Contains(out.String(), "root=false") {
				t.Errorf("as the user: %q, %v", out.String(), err)
			}
			if lines := strings.Join(m.Lines(), "\n"); strings.Contains(lines, secret) {
				t.Error("the password is in a command line")
			}
		})
	}
}

func TestSudoThatDoesNotAskLeaksNothing(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{User: "admin", Password: secret, Programs: programs(), Sudo: "password"}).Start(t)
	h := connect(t, dialer(t, host.Options{}, m), m.Target())
	if err := h.Run(t.Context(), host.Command{Args: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	m.Sudo = "free"
	var out bytes.Buffer
	err := h.Run(t.Context(), host.Command{Args: []string{"show"}, Stdout: &out})
	if err == nil || !strings.Contains(err.Error(), "nothing was run") || out.Len() > 0 {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	for _, interactive := range []bool{false, true} {
		m := (&hosttest.Machine{Name: "n1", Password: secret, Interactive: interactive}).Start(t)
		d := dialer(t, host.Options{}, m)
		connect(t, d, m.Target())
		target := m.Target()
		target.Password = "wr0ng-one"
		_, err := d.Connect(t.Context(), target)
		var auth *host.AuthError
		if !errors.As(err, &auth) || !strings.Contains(err.Error(), "n1 (127.0.0.1:") || strings.Contains(err.Error(), "wr0ng-one") {
			t.Errorf("interactive %v: %v", interactive, err)
		}
		if m.Connections() != 2 {
			t.Errorf("%d connections: a wrong password is tried again", m.Connections())
		}
	}
}

func TestNothingToLogInWith(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Password: secret}).Start(t)
	target := m.Target()
	target.Password = ""
	_, err := dialer(t, host.Options{}, m).Connect(t.Context(), target)
	if err == nil || !strings.Contains(err.Error(), "there is no key, no agent and no password") {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	d := dialer(t, host.Options{Attempts: 1, Timeout: 200 * time.Millisecond})
	_, err = d.Connect(t.Context(), host.Target{Name: "n1", Address: "127.0.0.1", Port: port, Password: secret})
	if err == nil || !strings.Contains(err.Error(), "connect n1 (127.0.0.1:") || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	m := (&hosttest.Machine{Password: secret}).Start(t)
	m.Inject(hosttest.Fault{Hang: true})
	if _, err = d.Connect(t.Context(), m.Target()); err == nil || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Error(err)
	}
}

func TestBusyServerIsTriedAgain(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Password: secret}).Start(t)
	m.Inject(hosttest.Fault{RefuseFirst: 1})
	connect(t, dialer(t, host.Options{}, m), m.Target())
	if m.Connections() != 2 {
		t.Errorf("%d connections", m.Connections())
	}
}

func TestLostConnection(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Name: "n1", Password: secret, Programs: programs()}).Start(t)
	h := connect(t, dialer(t, host.Options{}, m), m.Target())
	err := h.Run(t.Context(), host.Command{Args: []string{"wait"}, Stdout: writerFunc(func([]byte) { m.Cut() })})
	if err == nil || !strings.Contains(err.Error(), "the connection was lost") {
		t.Error(err)
	}
	<-h.Done()
	if err = h.Run(t.Context(), host.Command{Args: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "the connection was lost") {
		t.Error(err)
	}
}

func TestSilentConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	freeze := make(chan struct{})
	m := (&hosttest.Machine{Password: secret, Programs: programs()}).Start(t)
	m.Inject(hosttest.Fault{Freeze: freeze})
	h := connect(t, dialer(t, host.Options{KeepAlive: 5 * time.Millisecond}, m), m.Target())
	err := h.Run(t.Context(), host.Command{Args: []string{"wait"}, Stdout: writerFunc(func([]byte) { close(freeze) })})
	if err == nil || !strings.Contains(err.Error(), "the connection was lost") {
		t.Error(err)
	}
}

func TestCutAtEveryKilobyte(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Name: "n1", Password: secret, Programs: programs()}).Start(t)
	d := dialer(t, host.Options{Attempts: 1}, m)
	done := 0
	for n := int64(1); n < 6000; n += 500 {
		m.Inject(hosttest.Fault{CutAfter: n})
		h, err := d.Connect(t.Context(), m.Target())
		if err == nil {
			err = h.Run(t.Context(), host.Command{Args: []string{"show"}})
			h.Close()
		}
		if err == nil {
			done++
		} else if !strings.Contains(err.Error(), "n1") {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	if done == 0 || done == 12 {
		t.Errorf("%d of 12 connections went well", done)
	}
}

func TestJumpChain(t *testing.T) {
	t.Parallel()
	var chain []host.Target
	var all []*hosttest.Machine
	for i := range 2 {
		m := (&hosttest.Machine{Name: fmt.Sprint("jump", i), User: "j", Password: secret}).Start(t)
		chain, all = append(chain, m.Target()), append(all, m)
	}
	var targets []host.Target
	for i := range 4 {
		m := (&hosttest.Machine{Name: fmt.Sprint("n", i), Password: secret, Programs: programs()}).Start(t)
		target := m.Target()
		target.Jump = chain
		targets, all = append(targets, target), append(all, m)
	}
	hosts, errs := dialer(t, host.Options{}, all...).ConnectAll(t.Context(), targets)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, h := range hosts {
		if err := h.Run(t.Context(), host.Command{Args: []string{"show"}}); err != nil {
			t.Error(err)
		}
		h.Close()
	}
	if all[0].Connections() != 1 || all[1].Connections() != 1 {
		t.Errorf("connections to the jump hosts: %d, %d", all[0].Connections(), all[1].Connections())
	}
	// Unknown keys along the chain: one question for each of its links.
	asked := []int{}
	ask := func(_ context.Context, keys []host.UnknownKey) error { asked = append(asked, len(keys)); return nil }
	hosts, errs = dialer(t, host.Options{Ask: ask}).ConnectAll(t.Context(), targets)
	if err := errors.Join(errs...); err != nil || !slices.Equal(asked, []int{1, 1, 4}) {
		t.Errorf("asked %v, %v", asked, err)
	}
	for _, h := range hosts {
		h.Close()
	}
}

func TestDial(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			io.WriteString(c, "hello")
			c.Close()
		}
	}()
	m := (&hosttest.Machine{Password: secret}).Start(t)
	h := connect(t, dialer(t, host.Options{}, m), m.Target())
	c, err := h.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	l.Close()
	if _, err = h.Dial(t.Context(), "tcp", l.Addr().String()); err == nil || !strings.Contains(err.Error(), "dial 127.0.0.1:") {
		t.Error(err)
	}
}

func TestManyCommandsAtOnce(t *testing.T) {
	t.Parallel()
	m := (&hosttest.Machine{Password: secret, Programs: programs()}).Start(t)
	h := connect(t, dialer(t, host.Options{}, m), m.Target())
	errs := make(chan error)
	for range 40 {
		go func() { errs <- h.Run(t.Context(), host.Command{Args: []string{"show"}}) }()
	}
	for range 40 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
