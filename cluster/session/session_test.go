package session_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/host/hosttest"
	"github.com/clusterimage/sealer/cluster/session"
	"github.com/clusterimage/sealer/cluster/wire"
)

func program(arch, content string) *session.Program {
	return &session.Program{
		OS: "linux", Arch: arch, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(content))),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil },
	}
}

// node serves the far end: what "sealer node" does on a real machine.
func node(p *hosttest.Process) int {
	c, err := wire.New(p.Context(), p.Stdin, p.Stdout, nil, wire.Options{
		Hello: wire.Hello{Hostname: p.Machine.Name, Arch: "test"},
		Ops: map[string]wire.Handler{"name": func(context.Context, *wire.Incoming) (any, error) {
			return p.Machine.Name, nil
		}},
	})
	if err != nil {
		return 1
	}
	<-c.Done()
	return 0
}

// machine is a host that runs the installer in memory and the program, once it
// is there, as node.
func machine(t *testing.T, name, uname string) *hosttest.Machine {
	t.Helper()
	m := &hosttest.Machine{Name: name, Password: "p"}
	m.Programs = map[string]hosttest.Program{"sh": func(p *hosttest.Process) int {
		switch p.Args[3] {
		case "sealer-probe":
			fmt.Fprintf(p.Stdout, "Linux\n%s\n/usr/bin/gzip\n", uname)
		case "sealer-install":
			z, err := gzip.NewReader(p.Stdin)
			if err != nil {
				return 1
			}
			b, err := io.ReadAll(z)
			if err != nil || fmt.Sprintf("%x", sha256.Sum256(b)) != p.Args[6] {
				return 1
			}
			m.WriteFile(p.Args[4]+"/"+p.Args[5], b)
		}
		return 0
	}}
	m.Default = func(p *hosttest.Process) int {
		if _, ok := m.ReadFile(p.Args[0]); !ok {
			fmt.Fprintf(p.Stderr, "sh: %s: not found\n", p.Args[0])
			return 127
		}
		return node(p)
	}
	return m.Start(t)
}

func connect(t testing.TB, m *hosttest.Machine) *host.SSH {
	t.Helper()
	d, err := host.NewDialer(host.Options{Home: t.TempDir(), AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Connect(t.Context(), m.Target())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestOpenCopiesOnce(t *testing.T) {
	t.Parallel()
	m := machine(t, "n1", "x86_64")
	h := connect(t, m)
	copied := 0
	for range 3 {
		c, err := session.Open(t.Context(), h, session.Options{
			Own: program("amd64", "own"), Copied: func(int64) { copied++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		var name string
		if err := c.Call(t.Context(), "name", nil, &name, wire.Streams{}); err != nil || name != "n1" || c.Peer().Hostname != "n1" {
			t.Errorf("%q, %+v, %v", name, c.Peer(), err)
		}
		c.Close()
	}
	if n := len(m.Commands()); copied != 1 || n != 6 { // start, probe, install, three starts
		t.Errorf("copied %d times, %d commands", copied, n)
	}
}

func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	m := machine(t, "n1", "aarch64")
	h := connect(t, m)
	o := session.Options{Own: program("amd64", "own")}
	_, err := session.Open(t.Context(), h, o)
	if err == nil || !strings.Contains(err.Error(), "the host is linux/arm64 and this sealer is linux/amd64: build the image with a sealer for arm64 as bin/sealer") {
		t.Error(err)
	}
	o.Program = func(_, goarch string) (*session.Program, error) { return program(goarch, "of the image"), nil }
	for range 2 {
		c, err := session.Open(t.Context(), h, o)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	o.Program = func(string, string) (*session.Program, error) { return nil, errors.New("image has none") }
	if _, err = session.Open(t.Context(), h, o); err == nil || !strings.Contains(err.Error(), "image has none") {
		t.Error(err)
	}
}

func TestNoExec(t *testing.T) {
	t.Parallel()
	m := machine(t, "n1", "x86_64")
	m.Default = func(p *hosttest.Process) int { fmt.Fprint(p.Stderr, "Permission denied"); return 126 }
	_, err := session.Open(t.Context(), connect(t, m), session.Options{Own: program("amd64", "own")})
	if err == nil || !strings.Contains(err.Error(), "mounted noexec?") {
		t.Error(err)
	}
}

func TestConnectionCutInASession(t *testing.T) {
	t.Parallel()
	m := machine(t, "n1", "x86_64")
	c, err := session.Open(t.Context(), connect(t, m), session.Options{Own: program("amd64", "own")})
	if err != nil {
		t.Fatal(err)
	}
	m.Cut()
	<-c.Done()
	err = c.Call(t.Context(), "name", nil, nil, wire.Streams{})
	if !errors.Is(err, wire.ErrClosed) || !strings.Contains(err.Error(), "connection was lost") {
		t.Error(err)
	}
}

// The script itself, by a real shell.
func TestInstallScript(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sha256sum"); err != nil {
		t.Skip(err)
	}
	for name, sum := range map[string]string{"right": "", "wrong sum": strings.Repeat("0", 64)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a dir", "bin")
			p := program(runtime.GOARCH, "#!/bin/sh\nexit 5\n")
			if sum != "" {
				p.Digest = "sha256:" + sum
			}
			h := &shell{}
			_, err := session.Open(t.Context(), h, session.Options{Own: p, Dir: dir})
			left, readErr := os.ReadDir(dir)
			if readErr != nil {
				t.Fatal(readErr)
			}
			var exit *host.ExitError
			switch {
			case sum == "" && (!errors.As(err, &exit) || exit.Status != 5 || len(left) != 1):
				t.Errorf("%v, %v", err, left)
			case sum != "" && (err == nil || !strings.Contains(err.Error(), "copy sealer") || len(left) != 0):
				t.Errorf("%v, %v", err, left)
			}
		})
	}
}

// shell is this machine as if it were another.
type shell struct{ host.Local }

func TestGarbledStart(t *testing.T) {
	t.Parallel()
	m := machine(t, "n1", "x86_64")
	m.Default = func(p *hosttest.Process) int { fmt.Fprint(p.Stdout, "Welcome to n1\n"); <-p.Context().Done(); return 0 }
	_, err := session.Open(t.Context(), connect(t, m), session.Options{Own: program("amd64", "own")})
	if err == nil || !strings.Contains(err.Error(), `began with "Welcome to n1"`) {
		t.Error(err)
	}
}

func TestOwn(t *testing.T) {
	t.Parallel()
	p, err := session.Own()
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(b)); p.Digest != want || p.Arch != runtime.GOARCH {
		t.Errorf("%s for %s, want %s", p.Digest, p.Arch, want)
	}
	f, err := p.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d of %d bytes, %v", len(got), len(b), err)
	}
}
