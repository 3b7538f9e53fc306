package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"github.com/clusterimage/sealer/cluster/host"
	"github.com/clusterimage/sealer/cluster/wire"
)

// DefaultDir is where the program lies on a host.
const DefaultDir = "/var/lib/sealer/bin"

// Options are how a session begins.
type Options struct {
	// Own is the running program; nil finds it, for each session anew.
	Own *Program
	// Program returns sealer for a machine of another system or architecture
	// than Own's, as an image brings it in bin/sealer. Nil has none.
	Program func(goos, goarch string) (*Program, error)
	// Dir is where the program lies on the host; "" is DefaultDir.
	Dir string
	// Hello introduces this side to the host.
	Hello wire.Hello
	// Ops are the operations that the host may ask of this side.
	Ops map[string]wire.Handler
	// Args follow "node" on the command line: everybody on the host can see them.
	Args []string
	// Copied is told when the program was copied; nil is not.
	Copied func(bytes int64)
}

// Open begins a session on h. ctx spans the whole session: its end ends it.
//
// Its errors name the way out: a host of another architecture without a program
// for it, a full disk, a file system mounted noexec.
func Open(ctx context.Context, h host.Host, o Options) (*wire.Conn, error) {
	if _, local := h.(*host.Local); local {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the running program: %w", err)
		}
		return start(ctx, h, o, exe)
	}
	if o.Own == nil {
		var err error
		if o.Own, err = Own(); err != nil {
			return nil, err
		}
	}
	o.Dir = cmp.Or(o.Dir, DefaultDir)
	o.Hello.Dir = o.Dir
	file := func(p *Program) string { return path.Join(o.Dir, p.name()) }
	conn, err := start(ctx, h, o, file(o.Own))
	if err == nil || !missing(err) {
		return conn, err
	}
	m, err := probe(ctx, h)
	if err != nil {
		return nil, err
	}
	p, err := o.program(m)
	if err != nil {
		return nil, err
	}
	if p != o.Own {
		if conn, err = start(ctx, h, o, file(p)); err == nil || !missing(err) {
			return conn, err
		}
	}
	for range 2 { // a session that ends at this moment may remove the program once
		var made string
		if made, err = install(ctx, h, o, p, m); err != nil {
			return nil, err
		}
		o.Hello.Made = cmp.Or(o.Hello.Made, made)
		if conn, err = start(ctx, h, o, file(p)); err == nil || !missing(err) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("start %s: %w: is its file system mounted noexec?", file(p), err)
}

// missing says that a program could not be started: it is not there, or is no
// program of that machine.
func missing(err error) bool {
	var exit *host.ExitError
	return errors.As(err, &exit) && (exit.Status == 127 || exit.Status == 126)
}

// A machine is the description of a host that its own programs give, before
// sealer is there.
type machine struct {
	goos, goarch string
	unpack       []string // the program that unpacks gzip there; nil without one
}

// probeScript prints the system, the machine, and gzip where there is one.
const probeScript = `uname -s; uname -m; command -v gzip || :`

func probe(ctx context.Context, h host.Host) (machine, error) {
	var out bytes.Buffer
	err := h.Run(ctx, host.Command{Args: []string{"sh", "-c", probeScript, "sealer-probe"}, Stdout: &out})
	if err != nil {
		return machine{}, fmt.Errorf("ask for the architecture: %w", err)
	}
	words := strings.Fields(out.String())
	if len(words) < 2 {
		return machine{}, fmt.Errorf("ask for the architecture: uname says %q", out.String())
	}
	m := machine{goos: strings.ToLower(words[0]), goarch: goArch(words[1])}
	if len(words) > 2 {
		m.unpack = []string{"gzip", "-dc"}
	}
	return m, nil
}

// program chooses the program for a machine.
func (o Options) program(m machine) (*Program, error) {
	if m.goos == o.Own.OS && m.goarch == o.Own.Arch {
		return o.Own, nil
	}
	var err error
	if o.Program != nil {
		var p *Program
		if p, err = o.Program(m.goos, m.goarch); err == nil && p != nil {
			return p, nil
		}
	}
	msg := fmt.Errorf("the host is %s/%s and this sealer is %s/%s: build the image with a sealer for %s as bin/sealer (COPY sealer bin), or run sealer on a machine of that architecture",
		m.goos, m.goarch, o.Own.OS, o.Own.Arch, m.goarch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", msg, err)
	}
	return nil, msg
}

// installScript unpacks its input to $1/$2 and checks the SHA-256 of the result
// against $3. The further words are the unpacking program. It prints the topmost
// directory that it has made, if any. Partial files that a
// cut connection left are removed after a day, other versions of the program after
// a month: units run copies of their own.
const installScript = `set -eu
dir=$1 name=$2 sum=$3; shift 3
umask 022
made= at=$dir
while [ ! -e "$at" ]; do made=$at at=$(dirname "$at"); done
mkdir -p "$dir"
find "$dir" -name '.sealer-*' -mtime +0 -exec rm -f {} + || :
find "$dir" -name 'sealer-*' ! -name "$name" -mtime +30 -exec rm -f {} + || :
part=$dir/.$name.$$
trap 'rm -f "$part"' EXIT
"$@" >"$part"
echo "$sum  $part" | sha256sum -c - >/dev/null
chmod 0755 "$part"
sync "$part" 2>/dev/null || sync
mv -f "$part" "$dir/$name"
trap - EXIT
echo "$made"`

// install copies p and returns the topmost directory that it has made for it.
func install(ctx context.Context, h host.Host, o Options, p *Program, m machine) (made string, err error) {
	packed, err := p.compressed()
	if err != nil {
		return "", err
	}
	in, size, unpack := io.Reader(bytes.NewReader(packed)), int64(len(packed)), m.unpack
	if unpack == nil {
		f, err := p.Open()
		if err != nil {
			return "", fmt.Errorf("read sealer for %s/%s: %w", p.OS, p.Arch, err)
		}
		defer f.Close()
		in, unpack = f, []string{"cat"}
	}
	args := append([]string{"sh", "-c", installScript, "sealer-install", o.Dir, p.name(), p.sum()}, unpack...)
	var out bytes.Buffer
	if err := h.Run(ctx, host.Command{Args: args, Stdin: in, Stdout: &out}); err != nil {
		return "", fmt.Errorf("copy sealer to %s: %w", path.Join(o.Dir, p.name()), err)
	}
	if o.Copied != nil {
		o.Copied(size)
	}
	return strings.TrimSpace(out.String()), nil
}

// endGrace is how long the far end has to finish when the session is closed.
const endGrace = 15 * time.Second

// start runs "FILE node" and begins the protocol over its streams.
func start(ctx context.Context, h host.Host, o Options, file string) (*wire.Conn, error) {
	run, cancel := context.WithCancelCause(ctx)
	stdin, toNode := io.Pipe()
	fromNode, stdout := io.Pipe()
	ended := make(chan struct{})
	var failed error // of the run, once ended is closed
	go func() {
		defer close(ended)
		err := h.Run(run, host.Command{Args: append([]string{file, "node"}, o.Args...), Stdin: stdin, Stdout: stdout})
		failed = err
		stdout.CloseWithError(err) // io.EOF, when it is nil
		stdin.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	}()
	closed := func() error {
		// The end of its input tells the far end to finish; then it is told harder.
		toNode.Close()
		go func() {
			select {
			case <-ended:
			case <-time.After(endGrace):
			}
			cancel(wire.ErrClosed)
			fromNode.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, fromNode) }() // until the program has ended
		return nil
	}
	conn, err := wire.New(ctx, fromNode, toNode, closed, wire.Options{Hello: o.Hello, Ops: o.Ops})
	if err != nil {
		cancel(err)
		if errors.Is(err, wire.ErrClosed) { // why it did not begin, the run says
			<-ended
			err = cmp.Or(failed, err)
		}
		return nil, fmt.Errorf("start sealer node: %w", err)
	}
	return conn, nil
}
