package host_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/clusterimage/sealer/cluster/host"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	var l host.Local
	var out, errOut bytes.Buffer
	err := l.Run(t.Context(), host.Command{
		Args: []string{"sh", "-c", `cat; echo "$V" "$1"; echo bad >&2; exit 3`, "x", "a'b"}, Env: []string{"V=v"}, AsUser: true,
		Stdin: strings.NewReader("in\n"), Stdout: &out, Stderr: &errOut,
	})
	var exit *host.ExitError
	if !errors.As(err, &exit) || exit.Status != 3 || exit.Stderr != "bad\n" {
		t.Errorf("%v", err)
	}
	if out.String() != "in\nv a'b\n" || errOut.String() != "bad\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errOut.String())
	}
}

func TestLocalEnds(t *testing.T) {
	t.Parallel()
	var l host.Local
	var exit *host.ExitError
	err := l.Run(t.Context(), host.Command{Args: []string{"sh", "-c", "kill -9 $$"}, AsUser: true})
	if !errors.As(err, &exit) || exit.Signal != "KILL" || exit.Status != -1 {
		t.Errorf("a killed program: %v", err)
	}
	err = l.Run(t.Context(), host.Command{Args: []string{"no-such-program-here"}, AsUser: true})
	if !errors.As(err, &exit) || exit.Status != 127 {
		t.Errorf("a missing program: %v", err)
	}
	file := t.TempDir() + "/plain"
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err = l.Run(t.Context(), host.Command{Args: []string{file}, AsUser: true}); !errors.As(err, &exit) || exit.Status != 126 {
		t.Errorf("a file that is no program: %v", err)
	}
}

func TestLocalEndsBeforeItsInput(t *testing.T) {
	t.Parallel()
	var l host.Local
	r, w := io.Pipe()
	defer w.Close()
	if err := l.Run(t.Context(), host.Command{Args: []string{"true"}, AsUser: true, Stdin: r}); err != nil {
		t.Error(err)
	}
}

func TestLocalCancelEndsTheGroup(t *testing.T) {
	t.Parallel()
	var l host.Local
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped by the test")
	started := writerFunc(func([]byte) { time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) }) })
	err := l.Run(ctx, host.Command{
		// The child has the streams: Run would wait for it.
		Args: []string{"sh", "-c", "sleep 1000 & echo started; wait"}, AsUser: true, Stdout: started,
	})
	if !errors.Is(err, stopped) {
		t.Error(err)
	}
}

// writerFunc calls a function with what is written.
type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }
