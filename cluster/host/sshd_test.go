package host_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/clusterimage/sealer/cluster/host"
)

// sshd starts OpenSSH's server for this user on the loopback and connects to it.
// A machine that has none, or on which it does not start, skips the test.
func sshd(t *testing.T) *host.SSH {
	t.Helper()
	program := "/usr/sbin/sshd"
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no sshd: ", err)
	}
	dir := t.TempDir()
	authorized, _ := key(t, dir+"/user", "")
	key(t, dir+"/host", "")
	port := freePort(t)
	config := fmt.Sprintf(`Port %d
ListenAddress 127.0.0.1
HostKey %[2]s/host
AuthorizedKeysFile %[2]s/authorized
StrictModes no
PidFile none
UsePAM no
`, port, dir)
	for name, content := range map[string]string{"authorized": authorized, "conf": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	server := exec.Command(program, "-D", "-e", "-f", dir+"/conf")
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Skip("sshd does not start: ", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() { _ = server.Process.Kill() })
	name := os.Getenv("USER")
	if name == "" {
		name = "root"
	}
	d := dialer(t, host.Options{Home: dir, AcceptNew: true, Attempts: 1})
	for {
		h, err := d.Connect(t.Context(), host.Target{Address: "127.0.0.1", Port: port, User: name, Keys: []string{dir + "/user"}})
		if err == nil {
			t.Cleanup(func() { h.Close() })
			return h
		}
		select {
		case <-ended:
			t.Skip("sshd does not start: ", log.String())
		case <-time.After(20 * time.Millisecond):
		}
		if !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err, log.String())
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The real server, the real shell: arguments, environment and directory arrive
// as they are, streams are whole, and the end is told exactly.
func TestRealServer(t *testing.T) {
	t.Parallel()
	h := sshd(t)
	dir := filepath.Join(t.TempDir(), "it's a dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"a b", "it's", "$HOME `id`", "\n", "", "*", "\\", "é", "-n", "~"}
	var out bytes.Buffer
	err := h.Run(t.Context(), host.Command{
		Args: append([]string{"sh", "-c", `printf '%s\0' "$PWD" "$V" "$@"`, "sh"}, args...), Env: []string{"V=x'$y"}, Dir: dir, AsUser: true, Stdout: &out,
	})
	got := strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00")
	if diff := cmp.Diff(append([]string{dir, "x'$y"}, args...), got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	out.Reset()
	if err := h.Run(t.Context(), host.Command{Args: []string{"sha256sum"}, AsUser: true, Stdin: bytes.NewReader(large), Stdout: &out}); err != nil {
		t.Error(err)
	}
	if want := fmt.Sprintf("%x  -\n", sha256.Sum256(large)); out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	var exit *host.ExitError
	var errOut bytes.Buffer
	err = h.Run(t.Context(), host.Command{Args: []string{"sh", "-c", "echo why >&2; exit 42"}, AsUser: true, Stderr: &errOut})
	if !errors.As(err, &exit) || exit.Status != 42 || exit.Stderr != "why\n" || errOut.String() != "why\n" {
		t.Errorf("%v, stderr %q", err, errOut.String())
	}
	if err = h.Run(t.Context(), host.Command{Args: []string{"sh", "-c", "kill -9 $$"}, AsUser: true}); !errors.As(err, &exit) || exit.Signal != "KILL" {
		t.Errorf("killed: %v", err)
	}
	if err = h.Run(t.Context(), host.Command{Args: []string{"no-such-program"}, AsUser: true}); !errors.As(err, &exit) || exit.Status != 127 {
		t.Errorf("missing: %v", err)
	}
	if err = h.Run(t.Context(), host.Command{Args: []string{"true"}, Dir: dir + "/none", AsUser: true}); !errors.As(err, &exit) || !strings.Contains(exit.Stderr, "none") {
		t.Errorf("no directory: %v", err)
	}
}

// A cancelled command ends there, and its children with it.
func TestRealServerCancel(t *testing.T) {
	t.Parallel()
	h := sshd(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	var pids bytes.Buffer
	first := writerFunc(func(b []byte) {
		if pids.Write(b); strings.Count(pids.String(), "\n") == 2 {
			cancel(stopped)
		}
	})
	err := h.Run(ctx, host.Command{Args: []string{"sh", "-c", "sleep 1000 & echo $!; echo $$; wait"}, AsUser: true, Stdout: first})
	if !errors.Is(err, stopped) {
		t.Error(err)
	}
	for _, word := range strings.Fields(pids.String()) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; alive(pid); n++ {
			if n == 500 {
				t.Fatalf("process %d goes on", pid)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// alive says whether a process runs; one that has ended and that nobody has
// waited for does not.
func alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := bytes.Cut(b, []byte(") "))
	return err == nil && !bytes.HasPrefix(state, []byte("Z"))
}

func TestRealServerDial(t *testing.T) {
	t.Parallel()
	h := sshd(t)
	socket := filepath.Join(t.TempDir(), "s")
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = socket
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				c.Write([]byte("hello"))
				c.Close()
			}
		}()
		c, err := h.Dial(t.Context(), network, l.Addr().String())
		if err != nil {
			t.Errorf("%s: %v", network, err)
			continue
		}
		b := make([]byte, 5)
		if _, err := c.Read(b); err != nil || string(b) != "hello" {
			t.Errorf("%s: %q, %v", network, b, err)
		}
		c.Close()
	}
}
